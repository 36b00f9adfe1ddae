// Layers with everything around the routed experts, on two ranks. H hidden, d latent width.
#include <mutex>

#include "core/lab/layer_bench.h"
#include "core/lab/op_checks.h"
#include "tests/moe/moe_fixture.h"
#include "tests/support/tolerance.h"

using namespace moelab;
using namespace moelab::test;

namespace {

const std::string kAround =
    "num_experts = 4\nrouter = { type = \"sigmoid\", k = 3 }\n"
    "experts = { type = \"grouped\", width = 12, bias = true, weight_at = \"output\" }\n"
    "free_experts = { copy = { count = 2 }, constant = {} }\n"
    "dropper = { type = \"probs\", capacity_factor = 0.8, scope = \"batch\" }\n";

struct Sent {       // of one forward
  Index bytes = 0;  // by rank 0, which sends its pairs there and the other rank's results back
  Index rows = 0;   // pairs whose expert is on the other rank, of both ranks
};

Sent forward_on_two(const std::string& toml) {
  Sent sent;
  with_ranks(2, 2, [&](RankContext& ranks) {
    LayerBench bench(moe_params(toml), {}, ranks);
    const Index before = ranks.ep->traffic().bytes;
    const LayerRun run = bench.forward();
    const Index bytes = ranks.ep->traffic().bytes - before;
    const std::vector<Index> kept = run.record->plan->counts_kept();
    const Tensor rows = ranks.backend->zeros(DType::i64, {1});
    rows.data<Index>()[0] = ranks.rank == 0 ? kept[2] + kept[3] : kept[0] + kept[1];
    ranks.dp->all_reduce(rows).wait();
    if (ranks.rank == 0) sent = {bytes, rows.data<Index>()[0]};
  });
  return sent;
}

}  // namespace

TEST_CASE("two ranks give the results of one with shared, free and latent experts together") {
  for (const std::string& toml :
       {kAround + "latent = 5\nshared = { type = \"residual\", width = 6, bias = true }\n",
        kAround + "shared = { type = \"gated\", width = 6 }\n"}) {
    LayerCase c;
    c.valid_rows = 3;
    c.valid_columns = 7;
    LayerRun whole;
    with_ranks(1, 1,
               [&](RankContext& ranks) { whole = LayerBench(moe_params(toml), c, ranks).run(); });
    std::mutex guard;
    with_ranks(2, 2, [&](RankContext& ranks) {
      const LayerRun part = LayerBench(moe_params(toml), c, ranks).run();
      const Index half = whole.y_TH.size(0) / 2, first = ranks.rank * half;
      const double y = compare(part.y_TH, whole.y_TH.rows(first, half), "y").worst;
      const double dx = compare(part.x_grad_TH, whole.x_grad_TH.rows(first, half), "dx").worst;
      const std::lock_guard lock(guard);
      CHECK(y < tolerance(DType::f64).composed);
      CHECK(dx < tolerance(DType::f64).composed);
    });
  }
}

TEST_CASE("latent rows travel in the latent width, there and back") {
  const std::string layer =
      "num_experts = 4\nrouter = { type = \"sigmoid\", k = 3 }\nfree_experts = { copy = {} }\n"
      "shared = \"plain\"\n";
  const Sent full = forward_on_two(layer), latent = forward_on_two(layer + "latent = 3\n");
  constexpr Index kHidden = 8, kLatent = 3;
  REQUIRE(full.rows > 8);
  REQUIRE(full.rows == latent.rows);
  CHECK(full.bytes - latent.bytes ==
        full.rows * (kHidden - kLatent) * static_cast<Index>(sizeof(double)));
}
