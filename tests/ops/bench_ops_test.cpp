#include "core/lab/bench_ops.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/lab/step_ops.h"
#include "registry/error.h"

using namespace moelab;

TEST_CASE("bench ops times both passes of the cases that match, as table and as JSON lines") {
  OpBenchOptions options;
  options.filter = "mask_rows";
  options.seconds_per_case = 0;
  const auto rows = bench_ops(options);
  REQUIRE(rows.size() == 2);
  std::ostringstream table, lines;
  print_ops({}, rows, false, table);
  print_ops({}, rows, true, lines);
  CHECK(table.str().find("mask_rows") != std::string::npos);
  std::istringstream in(lines.str());
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    CHECK(row["op"] == "mask_rows");
    CHECK(row["ms_median"] > 0.0);
    CHECK(row["gigabytes_per_second"] > 0.0);
    CHECK(row["threads"] >= 1);
    CHECK(row["limit"] == "read");
    CHECK(row["percent_of_limit"] > 0.0);
  }
}

TEST_CASE("bench ops proposes the nearest name") {
  OpBenchOptions options;
  options.filter = "rmsnorm";
  CHECK_THROWS_WITH_AS(bench_ops(options), doctest::Contains("'rms_norm'"), Error);
}

TEST_CASE("bench ops --shape: the ops of a training step, the optimizer without a backward") {
  OpBenchOptions options;
  options.shape = "24,16,8,4,2";
  options.seconds_per_case = 0;
  const auto rows = bench_ops(options);
  std::vector<std::string> names;
  for (const OpBenchRow& row : rows) names.push_back(row.op + " " + row.pass);
  const auto holds = [&](const char* name) { return std::ranges::count(names, name) == 1; };
  CHECK(holds("grouped_mlp backward"));
  CHECK(holds("adamw forward"));
  CHECK_FALSE(holds("adamw backward"));
  std::ostringstream lines;
  print_ops(options, rows, true, lines);
  CHECK(lines.str().find("\"shape\":\"24,16,8,4,2\"") != std::string::npos);
  for (const char* wrong : {"quick", "5,7,3,3,3"}) {
    options.shape = wrong;
    CHECK_THROWS_AS(bench_ops(options), Error);
  }
}

TEST_CASE("step_ops run both ways at any shape") {
  for (const char* shape : {"1,64,8,4,1", "256,128,8,8,2", "5,6,3,3,3"}) {
    INFO(shape);
    const auto backend = Backend::cpu();
    for (const OpCase& op : step_ops(step_shape(shape))) {
      INFO(op.name);
      const OpInstance instance = op.instance(OpSize::large);
      const auto inputs = op_inputs(op, instance, *backend, DType::f32);
      const OpRun run = run_op(instance, inputs, *backend);
      for (const Tensor& output : run.outputs) {
        double sum = 0;
        for (const float v : output.span<float>()) sum += std::abs(v);
        CHECK(std::isfinite(sum));
        CHECK(sum > 0);
      }
    }
  }
}
