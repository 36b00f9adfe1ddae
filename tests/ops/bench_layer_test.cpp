// bench layer on a tiny shape: which lines it prints, and which arguments it refuses.
#include "core/lab/bench_layer.h"

#include <doctest/doctest.h>

#include <sstream>

#include "registry/error.h"

using namespace moelab;

TEST_CASE("bench_shape reads known names and T,H,F,E,k") {
  CHECK(bench_shape("C4").experts == 32);
  const BenchShape s = bench_shape("12,34,56,7,3");
  CHECK(s.tokens == 12);
  CHECK(s.width == 56);
  CHECK(s.k == 3);
  for (const char* wrong : {"C6", "", "1,2,3,4", "1,2,3,4,5", "1,2,3,4,5,6", "12,34,56,7,0",
                            "a,2,3,4,1", "-1,2,3,4,1", "99999999999999999999,2,3,4,1"}) {
    INFO(wrong);
    CHECK_THROWS_AS(bench_shape(wrong), Error);
  }
}

TEST_CASE("bench layer prints a line a way and pass") {
  BenchLayerOptions options;
  options.shapes = {bench_shape("20,8,6,4,2")};
  options.rounds = 1;
  options.json = true;
  std::ostringstream out;
  bench_layer(options, out);
  for (const char* part : {"\"shape\":\"20,8,6,4,2\",\"routing\":\"zipf\",\"dtype\":\"f32\","
                           "\"way\":\"grouped\",\"pass\":"
                           "\"fwd+bwd\",\"ms_median\":",
                           "\"way\":\"sequential\",\"pass\":\"fwd\"", "\"way\":\"fma_peak\"",
                           "\"way\":\"plain_gemm\"", "\"threads\":1", "\"stage_ms\":{\"route\":"}) {
    INFO(part);
    CHECK(out.str().find(part) != std::string::npos);
  }
  options.routings = {"even"};
  CHECK_THROWS_AS(bench_layer(options, out), Error);
  options.routings = {"uniform"};
  options.ways = {"no such"};
  CHECK_THROWS_AS(bench_layer(options, out), Error);
}
