#include "core/base/rng.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "core/base/check.h"
#include "core/base/philox.k.h"

namespace moelab {
namespace {

constexpr double kTwoTo53 = 0x1p-53;

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
std::uint64_t join(std::uint32_t low, std::uint32_t high) {
  return (std::uint64_t{high} << 32) | low;
}

}  // namespace

std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
  std::uint64_t h = 0xCBF29CE484222325u ^ mix(seed);
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return mix(h);
}

Rng::Rng(std::uint64_t seed, std::string_view stream, std::uint64_t salt)
    : key_(hash64(stream, seed)), salt_(salt) {}

Rng Rng::with_salt(std::uint64_t salt) const {
  Rng out = *this;
  out.salt_ = salt;
  return out;
}

std::array<std::uint32_t, 4> Rng::block(std::uint64_t index) const {
  const PhiloxBlock b = philox_block(key_, salt_, index);
  return {b.a, b.b, b.c, b.d};
}

std::uint64_t Rng::bits(std::uint64_t index) const {
  const auto b = block(index);
  return join(b[0], b[1]);
}

double Rng::uniform(std::uint64_t index) const {
  return static_cast<double>(bits(index) >> 11) * kTwoTo53;
}

double Rng::normal(std::uint64_t index) const {
  const auto b = block(index);
  const double u = static_cast<double>((join(b[0], b[1]) >> 11) + 1) * kTwoTo53;  // (0, 1]
  const double v = static_cast<double>(join(b[2], b[3]) >> 11) * kTwoTo53;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

std::uint64_t Rng::below(std::uint64_t index, std::uint64_t n) const {
  MOELAB_CHECK(n >= 1);
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits(index)) * n) >> 64);
}

std::uint64_t permuted(const Rng& rng, std::uint64_t index, std::uint64_t n) {
  MOELAB_CHECK(index < n, "index ", index, " n ", n);
  constexpr std::uint64_t kRounds = 8;
  const int half = std::max(1, (static_cast<int>(std::bit_width(n - 1)) + 1) / 2);
  MOELAB_CHECK(half <= 28, "n ", n);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  // A Feistel network permutes [0, 4^half); walking its cycle until it re-enters [0, n) permutes
  // [0, n). Fewer than four steps on average, since 4^half < 4n for n > 1.
  std::uint64_t x = index;
  do {
    std::uint64_t left = x >> half, right = x & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (rng.bits((round << 32) | right) & mask);
      left = right;
      right = next;
    }
    x = (left << half) | right;
  } while (x >= n);
  return x;
}

}  // namespace moelab
