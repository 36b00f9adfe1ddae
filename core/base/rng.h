// Counter-based random numbers (Philox4x32-10, Salmon et al., SC'11). A draw is a pure function of
// (seed, stream name, index): no state, no order, the same on every layout and at every resume.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace moelab {

using Index = std::int64_t;

class Rng {
 public:
  // `stream` names what is drawn ("init/model.embed_tokens.weight", "router/3/jitter"); `salt`
  // holds further coordinates such as step and micro-batch.
  Rng(std::uint64_t seed, std::string_view stream, std::uint64_t salt = 0);
  Rng with_salt(std::uint64_t salt) const;  // same seed and stream, other salt

  // The index-th block of the stream: four 32-bit words.
  std::array<std::uint32_t, 4> block(std::uint64_t index) const;
  std::uint64_t bits(std::uint64_t index) const;
  double uniform(std::uint64_t index) const;  // [0, 1), 53 bits
  double normal(std::uint64_t index) const;   // N(0, 1), Box-Muller in f64
  // Uniform integer in [0, n), n ≥ 1, without modulo bias worth naming (64-bit multiply-shift).
  std::uint64_t below(std::uint64_t index, std::uint64_t n) const;

  // For kernels that draw on the device: philox_block(key, salt, index) is block(index).
  std::uint64_t key() const { return key_; }
  std::uint64_t salt() const { return salt_; }

 private:
  std::uint64_t key_ = 0, salt_ = 0;
};

std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);  // FNV-1a then mixed

// A pseudo-random permutation of [0, n) evaluated at one point (cycle-walking Feistel network on
// Philox): shuffling without storing the permutation.
std::uint64_t permuted(const Rng& rng, std::uint64_t index, std::uint64_t n);

}  // namespace moelab
