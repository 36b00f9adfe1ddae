// Philox4x32-10 (Salmon et al., SC'11) as constexpr functions, for host and device code alike.
#pragma once
#include <cstdint>

namespace moelab {

struct PhiloxBlock {
  std::uint32_t word[4];
};

constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(p1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(p1),
                static_cast<std::uint32_t>(p0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(p0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// The index-th block of the stream (key, salt): what Rng::block returns.
constexpr PhiloxBlock philox_block(std::uint64_t key, std::uint64_t salt, std::uint64_t index) {
  return philox4x32_10({{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                         static_cast<std::uint32_t>(salt), static_cast<std::uint32_t>(salt >> 32)}},
                       static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
}

// 53 bits of the index-th draw, as Rng::uniform uses them: uniform = philox_bits53 · 2⁻⁵³.
constexpr std::uint64_t philox_bits53(std::uint64_t key, std::uint64_t salt, std::uint64_t index) {
  const PhiloxBlock b = philox_block(key, salt, index);
  return ((std::uint64_t{b.word[1]} << 32) | b.word[0]) >> 11;
}

}  // namespace moelab
