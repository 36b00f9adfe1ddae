// One recipe, many layouts: the same losses and the same routing as on one rank.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/train/batch.h"
#include "core/train/trainer.h"
#include "test_paths.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tolerance.h"

using namespace moelab;
using testing::TemporaryFolder;

namespace {

using Sets = std::vector<std::string>;

// Words in no particular order: enough to learn from.
std::string words() {
  const Rng rng(5, "words");
  const char* const list[] = {"router ", "expert ", "token ", "drop ", "layer ", "rank.\n"};
  std::string text;
  for (std::uint64_t i = 0; i < 4000; ++i) text += list[rng.below(i, 6)];
  return text;
}

RunConfig config_of(const TemporaryFolder& folder, const Sets& sets, Report& report) {
  Sets all{"data.dataset.path=\"" + folder.path("text.txt") + "\""};
  all.insert(all.end(), sets.begin(), sets.end());
  return load_run_config(MOELAB_SOURCE_DIR "/tests/parity/small.toml", all, report);
}

// The values of `name` in a run's metrics, step by step.
std::vector<double> metric(const std::string& run, const std::string& name) {
  std::ifstream file(run + "/metrics.jsonl");
  std::vector<double> out;
  for (std::string line; std::getline(file, line);) {
    const std::string key = "\"" + name + "\":";
    const std::size_t at = line.find(key);
    REQUIRE(at != std::string::npos);
    out.push_back(std::strtod(line.c_str() + at + key.size(), nullptr));
  }
  return out;
}

void train_quietly(const TemporaryFolder& folder, const std::string& run, const Sets& sets) {
  Report report;
  const RunConfig config = config_of(folder, sets, report);
  std::ostringstream out, log;
  TrainOptions options;
  options.recipe = "small.toml";
  options.out = folder.path(run);
  options.quiet = true;
  REQUIRE(train(config, report, options, out, log) == ExitCode::ok);
}

// Experts and fates of all pairs of the first micro-batch, in global token order, by MoE layer,
// with the weights of a checkpoint.
using Pairs = std::vector<std::vector<std::pair<std::int32_t, PairFate>>>;
Pairs routing(const TemporaryFolder& folder, const std::string& checkpoint, const Sets& sets) {
  Report report;
  const RunConfig config = config_of(folder, sets, report);
  const Corpus corpus = make_corpus(config);
  const Checkpoint trained = open_checkpoint(checkpoint);
  std::vector<std::vector<std::shared_ptr<RoutingRecord>>> records(
      static_cast<std::size_t>(config.parallel.ranks));
  run_ranks(config, 1, [&](Rank& rank) {
    const Session session(config, corpus, rank);
    load_weights(session, trained);
    load_states(session, trained);
    const StepBatch batch(session, config, *corpus.dataset, 0);
    const MicroBatch rows = batch.micro_batch(*session.ranks.backend, 0);
    Tape tape(*session.ranks.backend, Tape::Mode::forward);
    session.model->begin_step();
    records[static_cast<std::size_t>(rank.rank())] =
        session.model->forward(tape, rows.tokens, rows.target_T, {}, batch.facts()).records;
  });
  Pairs pairs(records[0].size());
  for (const auto& of_rank : records)
    for (std::size_t layer = 0; layer < pairs.size(); ++layer)
      for (std::size_t p = 0; p < of_rank[layer]->plan->expert_P.size(); ++p)
        pairs[layer].emplace_back(of_rank[layer]->plan->expert_P[p],
                                  of_rank[layer]->plan->fate_P[p]);
  return pairs;
}

double largest_deviation(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return most;
}

Sets dispatcher(const std::string& name) {
  return {"ffn.moe.dispatcher=\"" + name + "\"", "ffn.dropping.dispatcher=\"" + name + "\""};
}

}  // namespace

TEST_CASE("twenty steps on every layout equal one rank's") {
  struct Layout {
    std::string name, ranks, ep, dispatcher;
  };
  const Layout layouts[] = {{"dp2", "2", "1", "auto"},
                            {"ep2", "2", "2", "alltoall"},
                            {"ep4", "4", "4", "alltoall"},
                            {"ep2-on-4", "4", "2", "alltoall"},
                            {"ep2-allgather", "2", "2", "allgather"}};
  for (const DType dtype : {DType::f64, DType::f32}) {
    const TemporaryFolder folder;
    folder.write("text.txt", words());
    const Sets common{"run.dtype=\"" + std::string(name_of(dtype)) + "\""};
    train_quietly(folder, "one", common);
    const auto losses = metric(folder.path("one"), "loss");
    REQUIRE(losses.size() == 20);
    CHECK(losses.back() < 0.9 * losses.front());
    const std::string checkpoint = folder.path("one/checkpoints/step-20");
    const Pairs pairs = routing(folder, checkpoint, common);
    for (const Layout& layout : layouts) {
      CAPTURE(name_of(dtype));
      CAPTURE(layout.name);
      Sets sets = dispatcher(layout.dispatcher);
      sets.insert(sets.end(), common.begin(), common.end());
      sets.push_back("parallel.ranks=" + layout.ranks);
      sets.push_back("parallel.ep=" + layout.ep);
      train_quietly(folder, layout.name, sets);
      const double deviation = largest_deviation(metric(folder.path(layout.name), "loss"), losses);
      MESSAGE(name_of(dtype) << " " << layout.name << ": largest relative deviation " << deviation);
      CHECK(deviation < tolerance(dtype).layout);
      for (const char* name : {"moe/1/load_cv", "moe/2/load_cv", "moe/2/drop_rate"})
        CHECK(metric(folder.path(layout.name), name) == metric(folder.path("one"), name));
      CHECK(routing(folder, checkpoint, sets) == pairs);
    }
  }
}
