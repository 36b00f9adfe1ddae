// Routing recorded on disk and forced again: every verb, other layouts, other models, bad files.
#include <algorithm>
#include <filesystem>

#include "core/checkpoint/store.h"
#include "core/train/evaluate.h"
#include "core/train/index_set.h"
#include "core/train/routing_trace.h"
#include "registry/error.h"
#include "tests/support/run_command.h"
#include "tests/train/tiny_run.h"

using namespace moelab;
using moelab::testing::Ended;
using moelab::testing::TinyRun;

namespace {

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

const std::vector<std::string> kShort{"train.steps=4", "train.accumulate=2", "trace.steps=2-3"};

RoutingTrace trace_of(const TinyRun& run, const std::string& name, Phase phase, Index step) {
  for (const TraceFile& file : find_traces(run.path(name)))
    if (file.phase == phase && file.step == step) return read_trace(file.path);
  FAIL(name, " has no trace of step ", step);
  return {};
}

bool same_choices(const RoutingTrace& a, const RoutingTrace& b) {
  if (a.batches.size() != b.batches.size()) return false;
  for (std::size_t m = 0; m < a.batches.size(); ++m) {
    const TracedBatch &x = a.batches[m], &y = b.batches[m];
    if (x.token_T != y.token_T || x.valid_T != y.valid_T || x.layers.size() != y.layers.size())
      return false;
    for (std::size_t l = 0; l < x.layers.size(); ++l)
      if (x.layers[l].expert_P != y.layers[l].expert_P ||
          x.layers[l].offset_T1 != y.layers[l].offset_T1 ||
          x.layers[l].fate_P != y.layers[l].fate_P)
        return false;
  }
  return true;
}

// The error of reading `trace` back, once written.
std::string refused(const TinyRun& run, const RoutingTrace& trace) {
  write_trace(run.path("bad"), trace);
  try {
    read_trace(find_traces(run.path("bad")).front().path);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("sets of steps as a recipe writes them") {
  const auto has = [](const char* text, Index i) { return IndexSet::parse(text).value().has(i); };
  CHECK(has("all", 12345));
  CHECK_FALSE(has("", 0));
  for (const Index i : {1, 3, 20, 100, 150}) CHECK(has("1, 3-5,20, 100-200/50", i));
  for (const Index i : {0, 2, 6, 99, 101, 250}) CHECK_FALSE(has("1, 3-5,20, 100-200/50", i));
  CHECK(IndexSet::parse("3-9/4").value().largest() == 7);
  for (const char* wrong : {"x", "3-", "5-3", "1-9/0", "1 2", "-1", "1,,2", "all, 1"})
    CHECK_FALSE(IndexSet::parse(wrong).has_value());
}

TEST_CASE("trace holds the chosen steps and layers, every token of all ranks, weights and drops") {
  const TinyRun run;
  const auto sets = with(kShort, {"trace.layers=\"2\"", "ffn.moe.dropper.type=position",
                                  "ffn.moe.dropper.capacity_factor=0.75", "run.dtype=f64"});
  REQUIRE(run.train("one", sets).code == ExitCode::ok);
  REQUIRE(run.train("two", with(sets, {"parallel.ranks=2", "parallel.ep=2"})).code == ExitCode::ok);
  CHECK(find_traces(run.path("one")).size() == 2);
  const RoutingTrace trace = trace_of(run, "one", Phase::train, 2);
  CHECK(trace.batches.size() == 2);
  double dropped = 0;
  for (const TracedBatch& batch : trace.batches) {
    CHECK(batch.rows == 4);
    CHECK(batch.length == 16);
    REQUIRE(batch.layers.size() == 1);
    const TracedLayer& layer = batch.layers[0];
    CHECK(layer.layer == 2);
    REQUIRE(layer.expert_P.size() == 4 * 16 * 2);
    dropped += static_cast<double>(std::ranges::count(layer.fate_P, PairFate::capacity));
    for (std::size_t t = 0; t < 64; ++t)
      CHECK(layer.weight_P[2 * t] + layer.weight_P[2 * t + 1] == doctest::Approx(1));
  }
  CHECK(dropped / 256 == doctest::Approx(run.numbers("one", "moe/2/drop_rate")[1]));
  CHECK(dropped > 0);
  CHECK(same_choices(trace, trace_of(run, "two", Phase::train, 2)));
  CHECK_FALSE(same_choices(trace, trace_of(run, "one", Phase::train, 3)));
}

TEST_CASE("replay forces what was recorded in training, on any layout, and says what it changed") {
  const TinyRun run;
  const std::vector<std::string> sets = with(kShort, {"run.dtype=f64"});
  REQUIRE(run.train("one", sets).code == ExitCode::ok);
  const std::vector<std::string> replay = with(sets, {"replay.from=" + run.path("one")});

  const Ended again = run.train("again", replay);  // its own routing: nothing changes
  CHECK(contains(again.out, "replay: 2 of 4 passes"));
  CHECK(contains(again.out, "otherwise for 0 %"));
  CHECK(run.numbers("again", "loss") == run.numbers("one", "loss"));
  CHECK(run.numbers("again", "moe/1/replay_differs") == std::vector<double>{0, 0});

  for (const char* layout : {"parallel.ranks=1", "parallel.ranks=2"}) {
    const std::string name = str("other ", layout);
    REQUIRE(run.train(name, with(replay, {"model.seed=9", layout})).code == ExitCode::ok);
    for (const Index step : {2, 3})
      CHECK(same_choices(trace_of(run, "one", Phase::train, step),
                         trace_of(run, name, Phase::train, step)));
    for (const double differs : run.numbers(name, "moe/2/replay_differs")) {
      CHECK(differs > 0);
      CHECK(differs < 1);
    }
  }
}

TEST_CASE("a router of varying k is replayed on another model") {
  const TinyRun run([](std::string text) {
    const std::string fixed = "{ type = \"softmax\", k = 2 }", aux = "type = \"aux_loss\"\n";
    text.replace(text.find(fixed), fixed.size(), "{ type = \"top_p\", p = 0.525 }");
    return text.insert(text.find(aux) + aux.size(), "counts = \"routed\"\n");
  });
  const std::vector<std::string>& sets = kShort;
  REQUIRE(run.train("one", sets).code == ExitCode::ok);
  REQUIRE(run.train("other", with(sets, {"model.seed=9", "replay.from=" + run.path("one")})).code ==
          ExitCode::ok);
  const RoutingTrace trace = trace_of(run, "one", Phase::train, 2);
  CHECK(same_choices(trace, trace_of(run, "other", Phase::train, 2)));
  const std::vector<Index>& offset = trace.batches[0].layers[0].offset_T1;
  bool varies = false;
  for (std::size_t t = 2; t < offset.size(); ++t)
    varies |= offset[t] - offset[t - 1] != offset[1] - offset[0];
  CHECK(varies);
}

TEST_CASE("evaluation and generation are recorded and replayed on a saved model") {
  const TinyRun run;
  for (const char* name : {"one", "other"})
    REQUIRE(run.train(name, {"train.steps=2", "eval.final=true", "sample.final=true",
                             "trace.steps=\"2\"", name[1] == 'n' ? "model.seed=1" : "model.seed=9"})
                .code == ExitCode::ok);
  CHECK(find_traces(run.path("one")).size() == 3);  // step, evaluation, sample
  std::ostringstream log;
  SavedModel saved = open_saved(run.path("other"), {}, log);
  saved.config.trace.steps = "all";
  saved.trace_folder = run.path("forced");
  saved.config.replay.from = run.path("one");
  const double free = evaluate_saved(open_saved(run.path("other"), {}, log), 1).loss;
  CHECK(evaluate_saved(saved, 1, 0, &log).loss != free);
  CHECK(contains(log.str(), "replay: 1 of 1 passes"));
  CHECK(
      same_choices(trace_of(run, "one", Phase::eval, 2), trace_of(run, "forced", Phase::eval, 2)));

  SavedModel same = open_saved(run.path("one"), {}, log);
  same.config.replay.from = run.path("one");
  const SampleSection& sample = same.config.sample;
  const RoutingTrace text = trace_of(run, "one", Phase::inference, 2);
  CHECK(text.batches.size() == static_cast<std::size_t>(sample.tokens));
  std::ostringstream found;
  generate_saved(same, sample.prompt, sampling_of(sample), 1, {}, &found);
  CHECK(contains(found.str(), "otherwise for 0 %"));
  // Another prompt is other text.
  CHECK_THROWS_AS(generate_saved(same, "zz", sampling_of(sample), 1), Error);
}

TEST_CASE("the verb trace shows totals, or every pair of the chosen places") {
  const TinyRun run;
  REQUIRE(run.train("one", kShort).code == ExitCode::ok);
  const auto lines = [&](const std::string& options, ExitCode code = ExitCode::ok) {
    const auto result = testing::run_moelab("trace " + run.path("one") + options);
    CHECK(result.code == static_cast<int>(code));
    return std::ranges::count(result.text, '\n');
  };
  CHECK(lines("") == 1 + 2 * 2);  // a header; steps and layers
  CHECK(lines(" --step 2 --layer 1 --pairs") == 1 + 2 * 64 * 2);
  CHECK(lines(" --step 2 --layer 1 --micro-batch 0 --token 5 --pairs") == 1 + 2);
  const std::string one =
      testing::run_moelab("trace " + run.path("one") + " --step 3 --layer 2 --token 0 --pairs")
          .text;
  CHECK(contains(one, "\ntrain\t3\t1\t2\t0\t"));
  CHECK(contains(one, "\tkept\n"));
  lines(" --step 1", ExitCode::data);
  lines(" --phase evil", ExitCode::usage);
}

TEST_CASE("replay of what does not fit is an error of the data") {
  const TinyRun run;
  REQUIRE(run.train("one", kShort).code == ExitCode::ok);
  const auto fails = [&](const std::string& name, const std::vector<std::string>& sets,
                         const std::string& part) {
    try {
      run.train(name, with(with(kShort, {"replay.from=" + run.path("one")}), sets));
      FAIL(name, " was replayed");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::data);
      CHECK_MESSAGE(contains(error.what(), part), error.what());
    }
  };
  fails("k", {"ffn.moe.router.k=3"}, "the router chooses 3 experts");
  fails("experts", {"ffn.moe.num_experts=8"}, "has 4 experts in layer 1, the model 8");
  fails("data", {"data.seed=7"}, "has token ");
  fails("rows", {"train.batch=4"}, "has 4 rows of 16 tokens, the run 2 of 16");
  fails("micro-batches", {"train.batch=16", "train.accumulate=4"}, "micro-batch");
  fails("nothing", {"replay.from=" + run.path("nowhere")}, "holds no recorded routing");

  RoutingTrace trace = trace_of(run, "one", Phase::train, 2);
  CHECK(refused(run, trace).empty());
  const auto broken = [&](const std::function<void(TracedLayer&)>& change) {
    RoutingTrace copy = trace;
    change(copy.batches[1].layers[0]);
    return refused(run, copy);
  };
  CHECK(contains(broken([](TracedLayer& l) { l.expert_P[3] = 4; }), "token 1 goes to expert 4"));
  CHECK(contains(broken([](TracedLayer& l) { l.expert_P[3] = l.expert_P[2]; }), "twice"));
  CHECK(contains(broken([](TracedLayer& l) { l.offset_T1.pop_back(); }), "64 offsets for 64"));
  CHECK(contains(broken([](TracedLayer& l) { l.offset_T1[1] = 9; }), "pairs"));
  CHECK(contains(broken([](TracedLayer& l) { l.weight_P.pop_back(); }), "differ in length"));
  trace.batches[0].valid_T[5] = 0;
  CHECK(contains(refused(run, trace), "token 5 is padding"));
  // A file cut short.
  const std::string path = find_traces(run.path("one")).front().path;
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  CHECK_THROWS_AS(read_trace(path), Error);
}

TEST_CASE("a run that goes on from a checkpoint drops the traces of steps to come") {
  const TinyRun run;
  const std::vector<std::string> sets{"trace.steps=all", "train.checkpoint_every=2",
                                      "train.keep_checkpoints=2"};
  REQUIRE(run.train("one", with(sets, {"train.steps=4"})).code == ExitCode::ok);
  const RoutingTrace last = trace_of(run, "one", Phase::train, 4);
  std::filesystem::remove_all(run.path("one/checkpoints/step-4"));
  discard_traces_after(run.path("one/trace"), 2);
  CHECK(find_traces(run.path("one")).size() == 2);
  REQUIRE(run.train("one", with(sets, {"train.steps=4"}), "auto").code == ExitCode::ok);
  CHECK(same_choices(last, trace_of(run, "one", Phase::train, 4)));
}
