// The other program's JSON lines: which are figures, which of them count, what is refused.
#include "core/lab/peer_figures.h"

#include <doctest/doctest.h>

#include <sstream>

#include "core/lab/bench_layer.h"
#include "registry/error.h"
#include "tests/support/temporary_folder.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

std::string layer_line(const std::string& way, const std::string& rest) {
  return "{\"shape\": \"20,8,6,4,2\", \"routing\": \"zipf\", \"dtype\": \"f32\", \"way\": \"" +
         way + "\", \"pass\": \"fwd\", " + rest + "}\n";
}

PeerWork layer_work() {
  PeerWork work;
  work.kind = "layer";
  work.name = "20,8,6,4,2";
  work.routing = "zipf";
  work.dtype = "f32";
  work.pass = "fwd";
  return work;
}

}  // namespace

TEST_CASE("limits, failures and other threads are no rivals") {
  const TemporaryFolder folder;
  const PeerFigures peers(
      folder.write("p.jsonl", layer_line("roof_bmm", "\"ms_median\": 1, \"threads\": 2") +
                                  layer_line("loop", "\"ms_median\": 7, \"threads\": 2") + "\n" +
                                  layer_line("wrong", "\"ms_median\": 1, \"wrong\": true") +
                                  layer_line("absent", "\"skipped\": \"too large\"") +
                                  layer_line("broken", "\"failed\": \"x\", \"ms_median\": 1") +
                                  layer_line("bmm", "\"ms_median\": 2, \"threads\": 1") +
                                  layer_line("any", "\"ms_median\": 6")),
      "layer");
  REQUIRE(peers.best(layer_work(), 2).has_value());
  CHECK(peers.best(layer_work(), 2)->way == "any");
  CHECK(peers.best(layer_work(), 1)->way == "bmm");
  PeerWork other = layer_work();
  other.routing = "uniform";
  CHECK_FALSE(peers.best(other, 2).has_value());
}

TEST_CASE("files without figures are told with place and remedy") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(PeerFigures(folder.path("none"), "layer"), doctest::Contains("cannot be"),
                       Error);
  CHECK_THROWS_WITH_AS(PeerFigures(folder.write("a", "{}\nshape C2\n"), "layer"),
                       doctest::Contains(":2: is no JSON object"), Error);
  CHECK_THROWS_WITH_AS(PeerFigures(folder.write("b", layer_line("l", "\"ms_median\": 3")), "train"),
                       doctest::Contains("no figure of this kind (train)"), Error);
}

TEST_CASE("bench layer joins the fastest way into its lines and its table") {
  const TemporaryFolder folder;
  BenchLayerOptions options;
  options.shapes = {bench_shape("20,8,6,4,2")};
  options.routings = {"zipf"};
  options.ways = {"grouped"};
  options.rounds = 1;
  options.against = folder.write("p.jsonl", layer_line("loop", "\"ms_median\": 500"));
  std::ostringstream table, lines;
  bench_layer(options, table);
  options.json = true;
  bench_layer(options, lines);
  CHECK(table.str().find("500.00") != std::string::npos);
  CHECK(table.str().find("not in the file") != std::string::npos);  // fwd+bwd
  CHECK(lines.str().find("\"other_way\":\"loop\",\"other_ms\":500") != std::string::npos);
}

TEST_CASE("bench layer holds a decoding shape against the read bandwidth, forward only") {
  BenchLayerOptions options;
  options.shapes = {bench_shape("1,64,48,8,2")};
  options.routings = {"uniform"};
  options.ways = {"grouped"};
  options.rounds = 1;
  options.json = true;
  std::ostringstream lines;
  bench_layer(options, lines);
  CHECK(lines.str().find("\"percent_of_read\":") != std::string::npos);
  CHECK(lines.str().find("fwd+bwd") == std::string::npos);
}
