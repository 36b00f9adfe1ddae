#include "core/lab/bench_ops.h"

#include <algorithm>
#include <bit>
#include <iomanip>
#include <map>
#include <ostream>
#include <sstream>

#include "core/base/threads.h"
#include "core/lab/machine_peak.h"
#include "core/lab/op_case.h"
#include "core/lab/peer_figures.h"
#include "core/lab/samples.h"
#include "core/lab/step_ops.h"
#include "registry/error.h"

namespace moelab {
namespace {

struct Seconds {
  double forward = 0, backward = 0;
};

Seconds run_once(const OpInstance& instance, const std::vector<Tensor>& inputs, Backend& backend,
                 std::vector<Tensor>& cotangents) {
  Tape tape(backend);
  const auto variables = op_variables(tape, instance, inputs);
  Seconds seconds;
  {
    const double start = now_seconds();
    const auto outputs = instance.build(tape, variables);
    seconds.forward = now_seconds() - start;
    cotangents.resize(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].needs_grad()) continue;
      if (!cotangents[i]) cotangents[i] = op_cotangent(backend, outputs[i].value, i);
      tape.seed(outputs[i], cotangents[i]);
    }
  }
  const double start = now_seconds();
  tape.backward();
  seconds.backward = now_seconds() - start;
  return seconds;
}

// The limits, measured anew whenever asked: a virtual machine's change within minutes.
class Limits {
 public:
  Limits(const Backend& backend, DType dtype) : backend_(backend), dtype_(dtype) {}

  double peak() const {
    constexpr int kSlices = 2;
    double best = 0;
    for (int i = 0; i < kSlices; ++i) best = std::max(best, fma_peak_slice(dtype_).gflops);
    return best;
  }
  double read(double bytes) {
    constexpr std::uint64_t kLeast = 1 << 16, kMost = 1 << 29;
    const auto size = std::clamp(std::bit_ceil(static_cast<std::uint64_t>(bytes)), kLeast, kMost);
    auto at = roofs_.find(size);
    if (at == roofs_.end()) at = roofs_.try_emplace(size, backend_, static_cast<Index>(size)).first;
    return std::max(at->second.slice(), at->second.slice());
  }

 private:
  const Backend& backend_;
  DType dtype_;
  std::map<std::uint64_t, ReadRoof> roofs_;
};

void hold_against_limits(OpBenchRow& row, const OpCost& cost, double bytes, Limits& limits) {
  row.peak_gflops = limits.peak();
  row.read_gigabytes = limits.read(bytes);
  const double by_flops = cost.flops / row.peak_gflops, by_bytes = bytes / row.read_gigabytes;
  if (by_flops <= 0 && by_bytes <= 0) return;
  row.limit = by_flops > by_bytes ? "fma" : "read";
  row.percent_of_limit = 100 * std::max(by_flops, by_bytes) * 1e-9 / (row.ms_median * 1e-3);
}

void bench_case(const OpCase& op, const OpBenchOptions& options, Backend& backend, Limits& limits,
                std::vector<OpBenchRow>& rows) {
  constexpr std::size_t kLeast = 3, kMost = 1000;
  const OpInstance instance = op.instance(OpSize::large);
  const auto inputs = op_inputs(op, instance, backend, options.dtype);
  std::vector<Tensor> cotangents;
  run_once(instance, inputs, backend, cotangents);  // warms caches, arena and the GEMM's code
  std::vector<double> forward, backward;
  const double start = now_seconds();
  while (forward.size() < kLeast ||
         (forward.size() < kMost && now_seconds() - start < options.seconds_per_case)) {
    const Seconds s = run_once(instance, inputs, backend, cotangents);
    forward.push_back(s.forward);
    backward.push_back(s.backward);
  }
  const double widen = static_cast<double>(size_of(options.dtype)) / size_of(DType::f32);
  const auto add_row = [&](const char* pass, double seconds, const OpCost& cost) {
    OpBenchRow row;
    row.op = op.name;
    row.pass = pass;
    row.dtype = options.dtype;
    row.ms_median = seconds * 1e3;
    row.gflops = cost.flops / seconds * 1e-9;
    row.gigabytes = cost.bytes * widen / seconds * 1e-9;
    row.threads = threads();
    hold_against_limits(row, cost, cost.bytes * widen, limits);
    rows.push_back(row);
  };
  add_row("forward", median(forward), instance.forward);
  if (!cotangents.empty()) add_row("backward", median(backward), instance.backward);
}

std::optional<PeerFigure> best_of(const PeerFigures& peers, const std::string& shape,
                                  const OpBenchRow& row) {
  PeerWork work;
  work.kind = "op";
  work.name = row.op;
  work.shape = shape;
  work.dtype = name_of(row.dtype);
  work.pass = row.pass;
  return peers.best(work, row.threads);
}

void print_row(const OpBenchRow& r, std::ostream& out) {
  const auto number = [&out](int width, int digits, double value) {
    out << std::setw(width) << std::fixed << std::setprecision(digits) << value;
  };
  out << std::left << std::setw(34) << r.op << std::setw(10) << r.pass << std::setw(6)
      << name_of(r.dtype) << std::right;
  number(10, 3, r.ms_median);
  number(9, 1, r.gflops);
  number(9, 1, r.gigabytes);
  number(11, 0, r.peak_gflops);
  number(11, 0, r.read_gigabytes);
  if (*r.limit != '\0')
    number(9, 0, r.percent_of_limit);
  else
    out << std::setw(9) << '-';
  out << "  " << std::left << std::setw(5) << r.limit << std::right;
}

void print_json(const OpBenchRow& r, const std::string& shape, std::ostream& out) {
  out << R"({"op":")" << r.op << R"(","pass":")" << r.pass << R"(","dtype":")" << name_of(r.dtype)
      << '"';
  if (!shape.empty()) out << R"(,"shape":")" << shape << '"';
  out << R"(,"ms_median":)" << exact(r.ms_median) << R"(,"gflops":)" << exact(r.gflops)
      << R"(,"gigabytes_per_second":)" << exact(r.gigabytes) << R"(,"peak_gflops":)"
      << exact(r.peak_gflops) << R"(,"read_gigabytes_per_second":)" << exact(r.read_gigabytes)
      << R"(,"limit":")" << r.limit << R"(","percent_of_limit":)" << exact(r.percent_of_limit)
      << R"(,"threads":)" << r.threads;
}

}  // namespace

std::vector<OpBenchRow> bench_ops(const OpBenchOptions& options) {
  const auto backend = Backend::cpu();
  Limits limits(*backend, options.dtype);
  std::vector<OpBenchRow> rows;
  std::vector<std::string> names;
  for (const OpCase& op :
       options.shape.empty() ? op_cases() : step_ops(step_shape(options.shape))) {
    names.push_back(op.name);
    if (op.name.find(options.filter) != std::string::npos)
      bench_case(op, options, *backend, limits, rows);
  }
  if (rows.empty()) {
    const std::string near = suggest(options.filter, names);
    throw Error(ExitCode::usage, str("no op is called like '", options.filter, "'",
                                     near.empty() ? "" : str("; did you mean '", near, "'?")));
  }
  return rows;
}

void print_ops(const OpBenchOptions& options, const std::vector<OpBenchRow>& rows, bool json,
               std::ostream& out) {
  const PeerFigures peers(options.against, "op");
  if (!json)
    out << std::left << std::setw(34) << "op" << std::setw(10) << "pass" << std::setw(6) << "dtype"
        << std::right << std::setw(10) << "ms" << std::setw(9) << "GF/s" << std::setw(9) << "GB/s"
        << std::setw(11) << "peak GF/s" << std::setw(11) << "read GB/s" << std::setw(9) << "% limit"
        << "  which" << (peers.given() ? kPeerColumns : "") << '\n';
  for (const OpBenchRow& row : rows) {
    const auto best = best_of(peers, options.shape, row);
    std::ostringstream text;
    if (json) {
      print_json(row, options.shape, text);
      print_peer_json(text, peers, best, row.ms_median);
      text << '}';
    } else {
      print_row(row, text);
      print_peer_columns(text, peers, best, row.ms_median);
    }
    out << text.str() << '\n';
  }
}

}  // namespace moelab
