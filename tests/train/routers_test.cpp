// Runs with routers that carry state, vary the number of experts or look at later tokens.
#include <doctest/doctest.h>

#include "core/train/evaluate.h"
#include "tests/train/tiny_run.h"

using namespace moelab;
using moelab::testing::TinyRun;

namespace {

// The tiny recipe with this router, and these balancers in place of its own.
std::function<std::string(std::string)> with_router(const std::string& router,
                                                    const std::string& balancers = "") {
  return [=](std::string text) {
    const auto replace = [&](const std::string& from, const std::string& to,
                             const std::string& with) {
      const std::size_t begin = text.find(from), end = text.find(to, begin);
      REQUIRE(end != std::string::npos);
      text.replace(begin, end - begin, with);
    };
    replace("router = ", "[ffn.moe.balancers.aux]", "router = { " + router + " }\n");
    replace("[ffn.moe.balancers.aux]", "[data]", balancers);
    replace("num_experts = 4", "\n", "num_experts = 8");
    return text;
  };
}

const std::string kSparsity = R"([ffn.moe.balancers.sparsity]
type = "relu_sparsity"
start = 1e-4
)";

}  // namespace

TEST_CASE("routers and controllers with state resume bitwise") {
  for (const auto& edit :
       {with_router("type = \"quantile\", ema = 0.5"), with_router("type = \"relu\"", kSparsity)}) {
    const TinyRun run(edit);
    CHECK(run.train("whole", {"train.steps=6"}).code == ExitCode::ok);
    for (int i = 0; i < 3; ++i)
      run.train("parts", {"train.steps=6", "train.max_seconds=1e-9"}, "auto");
    run.train("parts", {"train.steps=6"}, "auto");
    CHECK(run.metrics("whole") == run.metrics("parts"));
    for (const char* file : {kModelFile, kOptimizerFile, kStateFile})
      CHECK(run.bytes(std::string("whole/checkpoints/step-6/") + file) ==
            run.bytes(std::string("parts/checkpoints/step-6/") + file));
  }
}

TEST_CASE("relu_sparsity holds the number of experts a token uses at the target") {
  const TinyRun run(with_router("type = \"relu\", mean_k = 1.0", kSparsity));
  CHECK(run.train("a", {"train.steps=300"}).code == ExitCode::ok);
  const auto mean = [&](std::size_t from, std::size_t to) {  // over both MoE layers
    double sum = 0;
    for (const char* metric : {"moe/1/experts_per_token", "moe/2/experts_per_token"})
      for (std::size_t i = from; i < to; ++i) sum += run.numbers("a", metric).at(i);
    return sum / 2 / static_cast<double>(to - from);
  };
  CHECK(mean(0, 1) > 3);
  CHECK(mean(200, 300) == doctest::Approx(1).epsilon(0.25));  // without the balancer about 1.7
}

TEST_CASE("a router that looks at later tokens is evaluated only if the recipe says so") {
  const TinyRun run(with_router("type = \"expert_choice\""));
  const auto problems = [&](const std::vector<std::string>& sets) {
    Report report;
    try {
      load_run_config(run.recipe(), sets, report);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(problems({}).empty());
  CHECK(problems({"eval.every=3"}).find("knowledge of its future") != std::string::npos);
  CHECK(problems({"sample.every=3"}).find("cannot be generated") != std::string::npos);
  const std::string allow = "ffn.moe.router.allow_non_causal=true";
  CHECK(problems({"eval.final=true", "sample.final=true", allow}).empty());

  CHECK(run.train("a", {"train.steps=2"}).code == ExitCode::ok);
  std::ostringstream log;
  const SavedModel refused = open_saved(run.path("a"), {}, log);
  CHECK_THROWS_WITH_AS(evaluate_saved(refused, 1), doctest::Contains("allow_non_causal"), Error);
  const std::vector<std::string> sets{allow};
  CHECK(evaluate_saved(open_saved(run.path("a"), sets, log), 1).loss > 0);
}
