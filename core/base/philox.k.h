// Philox4x32-10 (Salmon et al., SC'11) as constexpr functions, for host and device code alike.
#pragma once
#include <cstdint>

namespace moelab {

struct PhiloxBlock {
  std::uint32_t a, b, c, d;
};

constexpr PhiloxBlock philox_round(PhiloxBlock x, std::uint32_t key0, std::uint32_t key1) {
  const std::uint64_t p = std::uint64_t{0xD2511F53u} * x.a, q = std::uint64_t{0xCD9E8D57u} * x.c;
  return {static_cast<std::uint32_t>(q >> 32) ^ x.b ^ key0, static_cast<std::uint32_t>(q),
          static_cast<std::uint32_t>(p >> 32) ^ x.d ^ key1, static_cast<std::uint32_t>(p)};
}

// The rounds are written out, so that loops over many counters vectorise.
constexpr PhiloxBlock philox4x32_10(PhiloxBlock x, std::uint32_t key0, std::uint32_t key1) {
  constexpr std::uint32_t kStep0 = 0x9E3779B9u, kStep1 = 0xBB67AE85u;
  x = philox_round(x, key0, key1);
  x = philox_round(x, key0 + 1 * kStep0, key1 + 1 * kStep1);
  x = philox_round(x, key0 + 2 * kStep0, key1 + 2 * kStep1);
  x = philox_round(x, key0 + 3 * kStep0, key1 + 3 * kStep1);
  x = philox_round(x, key0 + 4 * kStep0, key1 + 4 * kStep1);
  x = philox_round(x, key0 + 5 * kStep0, key1 + 5 * kStep1);
  x = philox_round(x, key0 + 6 * kStep0, key1 + 6 * kStep1);
  x = philox_round(x, key0 + 7 * kStep0, key1 + 7 * kStep1);
  x = philox_round(x, key0 + 8 * kStep0, key1 + 8 * kStep1);
  return philox_round(x, key0 + 9 * kStep0, key1 + 9 * kStep1);
}

// The index-th block of the stream (key, salt): what Rng::block returns.
constexpr PhiloxBlock philox_block(std::uint64_t key, std::uint64_t salt, std::uint64_t index) {
  return philox4x32_10({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                        static_cast<std::uint32_t>(salt), static_cast<std::uint32_t>(salt >> 32)},
                       static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
}

// 53 bits of the index-th draw, as Rng::uniform uses them: uniform = philox_bits53 · 2⁻⁵³.
constexpr std::uint64_t philox_bits53(std::uint64_t key, std::uint64_t salt, std::uint64_t index) {
  const PhiloxBlock x = philox_block(key, salt, index);
  return ((std::uint64_t{x.b} << 32) | x.a) >> 11;
}

}  // namespace moelab
