// Tokenizer and dataset. A dataset gives row b of step s as a pure function of (seed, s, b): any
// layout and any resume sees the same bytes. L tokens a row.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "registry/component.h"

namespace moelab {

class Tokenizer {
 public:
  static constexpr std::string_view family = "tokenizer";
  struct Facts {};
  struct Traits {
    std::int64_t vocabulary = 256;
  };
  struct Context {};
  virtual ~Tokenizer() = default;
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  virtual std::string decode(const std::vector<std::int32_t>& tokens) const = 0;
  virtual std::int64_t vocabulary() const = 0;
};

// One row of L positions: inputs, what follows each (−1: no loss), and what must not mix.
struct Row {
  std::vector<std::int32_t> input, target;       // [L]
  std::vector<std::int32_t> position, document;  // [L]
  std::vector<std::uint8_t> valid;               // [L] 0 = padding
};

enum class Split : std::uint8_t { train, heldout };

class Dataset {
 public:
  static constexpr std::string_view family = "dataset";
  struct Facts {
    std::int64_t length = 0;
  };
  struct Traits {
    bool heldout = true;  // false: its parameters hold no text out
  };
  struct Context {
    std::int64_t length = 0;  // L
    std::int64_t batch = 0;   // global rows a step
    std::uint64_t seed = 0;
    std::shared_ptr<const Tokenizer> tokenizer;
  };
  virtual ~Dataset() = default;
  virtual Row train_row(std::int64_t step, std::int64_t row) const = 0;  // row of the global batch
  // Training rows until all of the text has been shown; 0: no such number.
  virtual std::int64_t epoch_rows() const { return 0; }
  // The held-out text cut into rows so that every token after the first is scored exactly once.
  virtual std::int64_t heldout_rows() const = 0;
  virtual Row heldout_row(std::int64_t row) const = 0;
  virtual std::int64_t tokens(Split split) const = 0;
  virtual std::int64_t bytes(Split split) const = 0;  // of the text behind the tokens
  virtual std::string raw(Split split) const = 0;     // for `data export`
  virtual std::string describe() const = 0;           // for `data inspect`: files, sizes, hash
  virtual std::uint64_t fingerprint() const = 0;  // of files, split and windows: checked on resume
};

}  // namespace moelab
