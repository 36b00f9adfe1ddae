// TOML text to a Node tree. toml++ is seen by toml_reader.cpp alone; what it cannot survive is
// refused before it looks (registry/toml_guard.cpp).
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "registry/node.h"
#include "registry/problem.h"

namespace moelab {

constexpr std::size_t kMaxRecipeBytes = 1 << 20;
constexpr int kMaxRecipeDepth = 16;  // brackets inside each other; dots in a key

// The bytes of a regular file, or nothing after reporting why at `blame`. Never blocks: a FIFO is
// refused, and no more than kMaxRecipeBytes are read.
std::optional<std::string> read_recipe_file(const std::string& path, const Source& blame,
                                            Report& report);

// In the text of the problem about an integer that does not fit.
constexpr std::string_view kTooManyBits = "not representable in 64 bits";

struct GuardFinding {
  std::size_t offset = 0;
  std::string text;
};
// What makes `text` unfit for the parser: size, NUL bytes, invalid UTF-8, depth. Nothing: fit.
std::optional<GuardFinding> guard_toml(std::string_view text);
bool valid_utf8(std::string_view text);

}  // namespace moelab
