// Recorded routing and recorded noise, played back through whole steps and evaluations.
#include <algorithm>
#include <set>

#include "core/train/evaluate.h"
#include "tests/train/tiny_run.h"

using namespace moelab;
using moelab::testing::TinyRun;

namespace {

RunConfig config_of(const TinyRun& run, std::vector<std::string> sets) {
  Report report;
  sets.emplace_back("run.dtype=f64");
  return load_run_config(run.recipe(), sets, report);
}

}  // namespace

TEST_CASE("one model's routing is played back on another, in training and in evaluation") {
  const TinyRun run;
  const RunConfig config = config_of(run, {"train.accumulate=2"});
  const Corpus corpus = make_corpus(config);
  run_ranks(config, 1, [&](Rank& rank) {
    const Session one(config, corpus, rank);
    const Session other(config_of(run, {"train.accumulate=2", "model.seed=9"}), corpus, rank);
    const StepBatch batch(one, config, *corpus.dataset, 0);
    std::vector<std::vector<ForcedRouting>> taken;
    StepHooks record, replay;
    record.output = [&](Index, const ModelOutput& output) {
      taken.push_back(recorded_routing(output, one.model->layers()));
    };
    replay.playback = [&](Index m) {
      ForwardOptions options;
      options.forced = &taken.at(static_cast<std::size_t>(m));
      return options;
    };
    const auto routed = [&](const Session& session, const StepHooks& hooks) {
      return forward_backward(session, batch, 0, hooks).loads().at(2).routed_E;
    };
    const std::vector<Index> load = routed(one, record);
    CHECK(taken.size() == 2);
    CHECK(routed(other, {}) != load);
    CHECK(routed(other, replay) == load);

    for (ForcedRouting& layer : taken[0])
      for (std::size_t p = 0; p < layer.expert_P.size(); ++p)
        layer.expert_P[p] = static_cast<std::int32_t>(p % 2);
    const auto first_two = [&](Index) { return replay.playback(0); };
    for (const LayerLoad& layer :
         evaluate_heldout(other, config, *corpus.dataset, 8, {}, first_two).loads) {
      CHECK(layer.tokens_E[0] == layer.tokens_E[1]);
      CHECK(layer.tokens_E[2] + layer.tokens_E[3] == 0);
    }
  });
}

TEST_CASE("recorded noise takes the place of the draws, in training and in evaluation") {
  const TinyRun run;
  const RunConfig plain = config_of(run, {}), noisy = config_of(run, {"ffn.moe.router.jitter=0.5"});
  const Corpus corpus = make_corpus(plain);
  run_ranks(plain, 1, [&](Rank& rank) {
    const Session without(plain, corpus, rank), with(noisy, corpus, rank);
    const StepBatch batch(without, plain, *corpus.dataset, 0);
    double value = 1;
    std::set<std::string> names;
    const NoiseSource recorded = [&](std::string_view name, const Tensor& out) {
      names.emplace(name);
      std::ranges::fill(out.span<double>(), value);
      return true;
    };
    StepHooks hooks;
    hooks.playback = [&](Index) {
      ForwardOptions options;
      options.noise = &recorded;
      return options;
    };
    const auto heldout = [&](const Session& session, const Playback& playback) {
      return evaluate_heldout(session, plain, *corpus.dataset, 8, {}, playback).loss;
    };
    const double loss = forward_backward(without, batch, 0).loss_sum();
    CHECK(forward_backward(with, batch, 0).loss_sum() != loss);
    CHECK(forward_backward(with, batch, 0, hooks).loss_sum() == loss);
    CHECK(names == std::set<std::string>{"model.layers.1.mlp.gate.jitter",
                                         "model.layers.2.mlp.gate.jitter"});
    CHECK(heldout(with, {}) == heldout(without, {}));
    CHECK(heldout(with, hooks.playback) == heldout(without, {}));
    value = -2;
    CHECK(heldout(with, hooks.playback) != heldout(without, {}));
  });
}
