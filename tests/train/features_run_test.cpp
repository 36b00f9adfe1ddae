// Whole runs of a pyramid: layers with different numbers of experts and choices, with all that may
// stand around the routed experts.
#include "tests/support/tolerance.h"
#include "tests/train/tiny_run.h"

using namespace moelab;
using moelab::testing::largest_deviation;
using moelab::testing::TinyRun;

namespace {

std::vector<std::string> pyramid(const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets{
      "model.layers=['switch', 'moe', 'wide', 'dense']",
      "ffn.switch={kind='switch', num_experts=2, width=12}",
      "ffn.moe.free_experts={copy={count=2}, constant={}, zero={}}",
      "ffn.moe.shared={type='residual', width=8, bias=true}",
      "ffn.moe.latent=6",
      "ffn.moe.experts.activation='clamped_swiglu'",
      "ffn.wide={kind='moe', num_experts=8, experts={width=8, weight_at='output'}, "
      "router={type='sigmoid', k=3, gating_residual=true}, shared={type='gated', width=8}}"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

}  // namespace

TEST_CASE("a pyramid trains, recomputed or not, and resumes to the same bits") {
  const TinyRun run;
  const auto whole = run.train("whole", pyramid());
  INFO(whole.log);
  REQUIRE(whole.code == ExitCode::ok);
  const auto loss = run.numbers("whole", "loss");
  CHECK(loss.back() < loss.front() - 0.2);
  run.train("again", pyramid({"model.recompute=['block']"}), "none", 2);
  CHECK(run.numbers("again", "loss") == loss);
  CHECK(run.numbers("again", "grad_norm") == run.numbers("whole", "grad_norm"));
  for (int i = 0; i < 3; ++i) run.train("parts", pyramid({"train.max_seconds=1e-9"}), "auto");
  run.train("parts", pyramid(), "auto");
  CHECK(run.numbers("parts", "loss") == loss);
  const std::string end = "/checkpoints/step-12/model.safetensors";
  CHECK(run.bytes("parts" + end) == run.bytes("whole" + end));
}

TEST_CASE("a pyramid's routing is recorded and replayed, the switch layer's too") {
  const TinyRun run;
  REQUIRE(run.train("one", pyramid({"train.steps=3", "trace.steps=1-3"})).code == ExitCode::ok);
  const std::string from = "replay.from=" + run.path("one");
  run.train("same", pyramid({"train.steps=3", from}));
  CHECK(run.numbers("same", "loss") == run.numbers("one", "loss"));
  CHECK(run.numbers("same", "moe/0/replay_differs") == std::vector<double>{0, 0, 0});
  run.train("other", pyramid({"train.steps=3", "model.seed=9", from}));
  for (const double differs : run.numbers("other", "moe/0/replay_differs")) CHECK(differs > 0);
}

TEST_CASE("a pyramid gives the same losses on two ranks") {
  const TinyRun run;
  run.train("one", pyramid({"run.dtype=f64"}));
  run.train("two", pyramid({"run.dtype=f64", "parallel.ranks=2", "parallel.ep=2"}), "none", 2);
  for (const char* name : {"loss", "grad_norm", "loss/aux"})
    CHECK(largest_deviation(run.numbers("two", name), run.numbers("one", name)) <
          tolerance(DType::f64).layout);
  CHECK(run.numbers("two", "moe/1/load_cv") == run.numbers("one", "moe/1/load_cv"));
}
