#include "core/base/rng.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <vector>

#include "core/base/philox.k.h"

using namespace moelab;

TEST_CASE("Philox4x32-10 gives the known answers of the Random123 distribution") {
  struct Known {
    PhiloxBlock counter;
    std::uint32_t key[2];
    PhiloxBlock answer;
  };
  constexpr std::uint32_t kOnes = 0xFFFFFFFFu;
  const Known known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627E8D5u, 0xE169C58Du, 0xBC57AC4Cu, 0x9B00DBD8u}},
      {{kOnes, kOnes, kOnes, kOnes},
       {kOnes, kOnes},
       {0x408F276Du, 0x41C83B0Eu, 0xA20BC7C6u, 0x6D5451FDu}},
      {{0x243F6A88u, 0x85A308D3u, 0x13198A2Eu, 0x03707344u},
       {0xA4093822u, 0x299F31D0u},
       {0xD16CFE09u, 0x94FDCCEBu, 0x5001E420u, 0x24126EA1u}},
  };
  for (const Known& k : known) {
    const PhiloxBlock got = philox4x32_10(k.counter, k.key[0], k.key[1]);
    CHECK(got.a == k.answer.a);
    CHECK(got.b == k.answer.b);
    CHECK(got.c == k.answer.c);
    CHECK(got.d == k.answer.d);
  }
}

TEST_CASE("a draw depends on seed, stream, salt and index, and on nothing else") {
  const Rng rng(1, "a", 2);
  CHECK(rng.bits(5) == Rng(1, "a", 2).bits(5));
  CHECK(rng.bits(5) == Rng(1, "a").with_salt(2).bits(5));
  const std::set<std::uint64_t> different{rng.bits(5), rng.bits(6), Rng(2, "a", 2).bits(5),
                                          Rng(1, "b", 2).bits(5), Rng(1, "a", 3).bits(5)};
  CHECK(different.size() == 5);
  CHECK(rng.uniform(7) == std::ldexp(static_cast<double>(rng.bits(7) >> 11), -53));
  CHECK(philox_bits53(rng.key(), rng.salt(), 7) == rng.bits(7) >> 11);
}

TEST_CASE("uniform and normal have the moments of their distributions") {
  const Rng rng(3, "moments");
  constexpr int kDraws = 40000;
  double u1 = 0, u2 = 0, n1 = 0, n2 = 0, n4 = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double u = rng.uniform(i), n = rng.normal(i);
    REQUIRE((u >= 0 && u < 1));
    u1 += u / kDraws, u2 += u * u / kDraws;
    n1 += n / kDraws, n2 += n * n / kDraws, n4 += n * n * n * n / kDraws;
  }
  // Four standard errors of each mean.
  CHECK(std::abs(u1 - 0.5) < 4 * std::sqrt(1.0 / 12 / kDraws));
  CHECK(std::abs(u2 - 1.0 / 3) < 4 * std::sqrt(4.0 / 45 / kDraws));
  CHECK(std::abs(n1) < 4 * std::sqrt(1.0 / kDraws));
  CHECK(std::abs(n2 - 1) < 4 * std::sqrt(2.0 / kDraws));
  CHECK(std::abs(n4 - 3) < 4 * std::sqrt(96.0 / kDraws));
}

TEST_CASE("below stays below and reaches every value") {
  const Rng rng(4, "below");
  std::vector<int> seen(7);
  for (std::uint64_t i = 0; i < 700; ++i) ++seen.at(rng.below(i, 7));
  for (const int count : seen) CHECK(count > 50);
  CHECK(rng.below(0, 1) == 0);
}

TEST_CASE("permuted is a permutation for every size, and shuffles") {
  for (const std::uint64_t n : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 255U, 1000U, 1025U}) {
    CAPTURE(n);
    std::set<std::uint64_t> image;
    const Rng rng(5, "permuted");
    for (std::uint64_t i = 0; i < n; ++i) image.insert(permuted(rng, i, n));
    CHECK(image.size() == n);
    CHECK(*image.rbegin() == n - 1);
  }
  int fixed = 0, kept = 0;
  const Rng a(6, "a"), b(7, "a");
  for (std::uint64_t i = 0; i < 1000; ++i) {
    fixed += permuted(a, i, 1000) == i;
    kept += permuted(a, i, 1000) == permuted(b, i, 1000);
  }
  CHECK(fixed < 10);
  CHECK(kept < 10);
}
