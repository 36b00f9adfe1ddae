// What `moelab new tokenizer NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: one token a byte, capital letters as small ones.
#include "core/data/dataset.h"

namespace moelab {
namespace {

class @Name@ final : public Tokenizer {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
  };
  @Name@(const Params&, const Context&) {}

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    for (const char c : text) {
      const bool capital = c >= 'A' && c <= 'Z';
      tokens.push_back(static_cast<unsigned char>(capital ? c - 'A' + 'a' : c));
    }
    return tokens;
  }
  std::string decode(const std::vector<std::int32_t>& tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) text += static_cast<char>(token);
    return text;
  }
  std::int64_t vocabulary() const override { return 256; }
};

const Register<Tokenizer, @Name@> registered{"@name@",
                                                  "one token a byte, in small letters"};

}  // namespace
}  // namespace moelab
)file";

constexpr const char* kTest = R"file(// What @name@ promises beside the contracts.
#include <cmath>
#include <iostream>
#include <string>

#include "core/data/dataset.h"

using namespace moelab;

int main() {
  int failures = 0;
  const auto expect = [&](bool kept, const std::string& promise) {
    if (kept) return;
    std::cerr << "@name@: broken: " << promise << "\n";
    ++failures;
  };
  Component<Tokenizer> component;
  expect(component.choose("@name@"), "it is registered");
  const auto tokenizer = component.make({});
  expect(tokenizer->vocabulary() == component.traits().vocabulary,
         "its traits tell its vocabulary");
  const auto tokens = tokenizer->encode("Abc! \xff");
  expect(tokens.size() == 6, "a byte is a token");
  for (const std::int32_t token : tokens)
    expect(token >= 0 && token < tokenizer->vocabulary(), "tokens are in the vocabulary");
  expect(tokenizer->decode(tokens) == "abc! \xff", "decoding gives the small letters");
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"tokenizer", "core/data/components", kComponent, kTest}};

}  // namespace
}  // namespace moelab
