#include "core/lab/bench_ops.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <ostream>

#include "core/base/threads.h"
#include "core/lab/op_case.h"
#include "registry/error.h"

namespace moelab {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Seconds {
  double forward = 0, backward = 0;
};

Seconds run_once(const OpInstance& instance, const std::vector<Tensor>& inputs, Backend& backend,
                 std::vector<Tensor>& cotangents) {
  Tape tape(backend);
  const auto variables = op_variables(tape, instance, inputs);
  Seconds seconds;
  {
    const double start = now();
    const auto outputs = instance.build(tape, variables);
    seconds.forward = now() - start;
    cotangents.resize(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].needs_grad()) continue;
      if (!cotangents[i]) cotangents[i] = op_cotangent(backend, outputs[i].value, i);
      tape.seed(outputs[i], cotangents[i]);
    }
  }
  const double start = now();
  tape.backward();
  seconds.backward = now() - start;
  return seconds;
}

void bench_case(const OpCase& op, const OpBenchOptions& options, std::vector<OpBenchRow>& rows) {
  constexpr std::size_t kLeast = 3, kMost = 1000;
  const auto backend = Backend::cpu();
  const OpInstance instance = op.instance(OpSize::large);
  const auto inputs = op_inputs(op, instance, *backend, options.dtype);
  std::vector<Tensor> cotangents;
  run_once(instance, inputs, *backend, cotangents);  // warms caches, arena and the GEMM's code
  std::vector<double> forward, backward;
  const double start = now();
  while (forward.size() < kLeast ||
         (forward.size() < kMost && now() - start < options.seconds_per_case)) {
    const Seconds s = run_once(instance, inputs, *backend, cotangents);
    forward.push_back(s.forward);
    backward.push_back(s.backward);
  }
  const double widen = static_cast<double>(size_of(options.dtype)) / size_of(DType::f32);
  const auto add_row = [&](const char* pass, double seconds, const OpCost& cost) {
    rows.push_back({.op = op.name,
                    .pass = pass,
                    .dtype = options.dtype,
                    .ms_median = seconds * 1e3,
                    .gflops = cost.flops / seconds * 1e-9,
                    .gigabytes = cost.bytes * widen / seconds * 1e-9,
                    .threads = threads()});
  };
  add_row("forward", median(forward), instance.forward);
  add_row("backward", median(backward), instance.backward);
}

}  // namespace

std::vector<OpBenchRow> bench_ops(const OpBenchOptions& options) {
  std::vector<OpBenchRow> rows;
  std::vector<std::string> names;
  for (const OpCase& op : op_cases()) {
    names.push_back(op.name);
    if (op.name.find(options.filter) != std::string::npos) bench_case(op, options, rows);
  }
  if (rows.empty()) {
    const std::string near = suggest(options.filter, names);
    throw Error(ExitCode::usage, str("no op is called like '", options.filter, "'",
                                     near.empty() ? "" : str("; did you mean '", near, "'?")));
  }
  return rows;
}

void print_table(std::ostream& out, const std::vector<OpBenchRow>& rows) {
  out << std::left << std::setw(34) << "op" << std::setw(10) << "pass" << std::setw(6) << "dtype"
      << std::right << std::setw(10) << "ms" << std::setw(9) << "GF/s" << std::setw(9) << "GB/s"
      << std::setw(9) << "threads" << '\n';
  const auto number = [&out](int width, int digits, double value) {
    out << std::setw(width) << std::fixed << std::setprecision(digits) << value;
  };
  for (const OpBenchRow& r : rows) {
    out << std::left << std::setw(34) << r.op << std::setw(10) << r.pass << std::setw(6)
        << name_of(r.dtype) << std::right;
    number(10, 3, r.ms_median);
    number(9, 1, r.gflops);
    number(9, 1, r.gigabytes);
    out << std::setw(9) << r.threads << '\n';
  }
}

void print_json_lines(std::ostream& out, const std::vector<OpBenchRow>& rows) {
  for (const OpBenchRow& r : rows)
    out << R"({"op":")" << r.op << R"(","pass":")" << r.pass << R"(","dtype":")" << name_of(r.dtype)
        << R"(","ms_median":)" << exact(r.ms_median) << R"(,"gflops":)" << exact(r.gflops)
        << R"(,"gigabytes_per_second":)" << exact(r.gigabytes) << R"(,"threads":)" << r.threads
        << "}\n";
}

}  // namespace moelab
