// T tokens, H hidden, E experts, R rows.
#include "core/lab/bench_layer.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <numeric>
#include <ostream>
#include <sstream>

#include "core/base/threads.h"
#include "core/lab/layer_bench.h"
#include "core/lab/machine_peak.h"
#include "registry/error.h"
#include "registry/recipe.h"

namespace moelab {
namespace {

constexpr int kRoutingsInTurn = 4;
constexpr std::uint64_t kSeed = 17;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// k distinct experts a token, drawn without replacement with weights 1 or 1/(i+1): the k largest of
// log weight + Gumbel noise.
ForcedRouting draw_routing(const BenchShape& shape, const std::string& kind, int which) {
  const Rng rng(kSeed, "bench/routing", static_cast<std::uint64_t>(which));
  ForcedRouting out;
  std::vector<double> key(static_cast<std::size_t>(shape.experts));
  std::vector<std::int32_t> order(key.size());
  for (Index t = 0; t < shape.tokens; ++t) {
    for (std::size_t e = 0; e < key.size(); ++e) {
      const double u = rng.uniform(static_cast<std::uint64_t>(t) * key.size() + e);
      const double weight = kind == "zipf" ? 1.0 / static_cast<double>(e + 1) : 1.0;
      key[e] = std::log(weight) - std::log(-std::log(std::clamp(u, 1e-12, 1 - 1e-12)));
    }
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + shape.k, order.end(), [&](auto a, auto b) {
      return key[static_cast<std::size_t>(a)] > key[static_cast<std::size_t>(b)];
    });
    out.offset_T1.push_back(t * shape.k);
    out.expert_P.insert(out.expert_P.end(), order.begin(), order.begin() + shape.k);
  }
  out.offset_T1.push_back(shape.tokens * shape.k);
  return out;
}

MoeParams layer_params(const BenchShape& shape, const std::string& way) {
  MoeParams params;
  Report report;
  const Node tree = parse_recipe(
      str("num_experts = ", shape.experts, "\nrouter = { type = \"softmax\", k = ", shape.k,
          " }\ndispatcher = \"local\"\nexperts = { type = ", toml_string(way),
          ", width = ", shape.width, ", activation = \"swiglu\" }\n"),
      "bench layer", Source::Origin::recipe, report);
  read_into(
      tree, "", [&](ParamVisitor& v) { params.describe(v); }, report);
  if (report.has_errors()) throw Error(ExitCode::usage, report.lines());
  return params;
}

// Stages by the ops that make them up; what is between the ops of forward (plans, counting sort) is
// `permute`.
enum Stage : std::uint8_t { kRoute, kPermute, kDispatch, kExperts, kCombine, kStages };
constexpr const char* kStageNames[] = {"route", "permute", "dispatch", "experts", "combine"};

Stage stage_of(std::string_view op) {
  if (op == "gating" || op == "router_select" || op == "renormalize_weights") return kRoute;
  if (op == "gather_weights" || op == "gather_rows") return kDispatch;
  if (op == "combine_rows") return kCombine;
  return kExperts;
}

struct Sample {
  double seconds = 0;
  double stage[kStages] = {};
};

struct Series {  // the samples of one way and pass
  std::vector<double> seconds, stage[kStages];
  void add(const Sample& s) {
    seconds.push_back(s.seconds);
    for (int i = 0; i < kStages; ++i) stage[i].push_back(s.stage[i]);
  }
};

// Cheap values of about unit variance times `scale`: the time does not depend on them.
void fill(const Tensor& t, double scale) {
  dispatch_real(t.dtype(), "fill", [&]<class T>(T) {
    T* const data = t.data<T>();
    parallel_ranges(t.numel(), 65536, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        const auto bits = static_cast<std::uint64_t>(i + 1) * 0x9E3779B97F4A7C15u >> 40;
        data[i] = static_cast<T>((static_cast<double>(bits) * 0x1p-24 - 0.5) * 3.4 * scale);
      }
    });
  });
}

class LayerWay {
 public:
  LayerWay(const BenchShape& shape, const std::string& way, DType dtype, RankContext& ranks)
      : name(way),
        ranks_(ranks),
        layer_(layer_params(shape, way),
               {ranks, dtype, shape.hidden, 0, 0.02, 0.02, 0.02, "model.layers.0.mlp"}) {
    layer_.parameters([&](Parameter& p) { fill(p.value, 0.02), parameters_.push_back(&p); });
  }

  Sample run(const Tensor& x_TH, const Tensor& dy_TH, const Tokens& tokens,
             const ForcedRouting& routing, bool backward) {
    for (Parameter* p : parameters_) p->grad_written = false;
    Sample sample;
    const StepFacts facts;
    const double start = omp_get_wtime();
    Tape tape(*ranks_.backend, backward ? Tape::Mode::gradients : Tape::Mode::forward);
    tape.observe(
        [&](const char* op, bool, double seconds) { sample.stage[stage_of(op)] += seconds; });
    double in_ops = 0;
    {
      const Variable x = tape.input(x_TH);
      const FfnOutput out = layer_.forward(tape, {x, tokens, {}, facts, &routing});
      for (const double s : sample.stage) in_ops += s;
      sample.stage[kPermute] += omp_get_wtime() - start - in_ops;
      if (backward) tape.seed(out.y_TH, dy_TH);
    }
    if (backward) tape.backward();
    sample.seconds = omp_get_wtime() - start;
    return sample;
  }

  std::string name;
  Series forward, both;

 private:
  RankContext& ranks_;
  MoeLayer layer_;
  std::vector<Parameter*> parameters_;
};

Tokens plain_tokens(const Backend& backend, Index count) {
  Tokens tokens;
  tokens.rows = tokens.rows_global = 1;
  tokens.length = count;
  tokens.id_T = backend.zeros(DType::i32, {count});
  tokens.position_T = backend.zeros(DType::i32, {count});
  tokens.document_T = backend.zeros(DType::i32, {count});
  tokens.valid_T = backend.empty(DType::u8, {count});
  for (std::uint8_t& valid : tokens.valid_T.span<std::uint8_t>()) valid = 1;
  return tokens;
}

class Printer {
 public:
  Printer(const BenchLayerOptions& options, std::ostream& out) : options_(options), out_(out) {
    if (!options.json)
      out << "shape            routing dtype way         pass       ms    GF/s  % of peak   "
             "route permute dispatch experts combine (ms)\n";
  }

  void line(const std::string& shape, const std::string& routing, const std::string& way,
            const char* pass, double seconds, double gflops, double peak, const Series* series) {
    std::ostringstream text;
    text << std::fixed;
    const double percent = peak > 0 ? 100 * gflops / peak : 0;
    if (options_.json) {
      text << std::setprecision(3) << "{\"shape\":\"" << shape << "\",\"routing\":\"" << routing
           << "\",\"dtype\":\"" << name_of(options_.dtype) << "\",\"way\":\"" << way
           << "\",\"pass\":\"" << pass << "\",\"ms_median\":" << seconds * 1e3
           << ",\"gflops\":" << gflops << ",\"percent_of_peak\":" << percent
           << ",\"threads\":" << options_.threads;
      if (series) {
        text << ",\"stage_ms\":{";
        for (int i = 0; i < kStages; ++i)
          text << (i ? "," : "") << '"' << kStageNames[i]
               << "\":" << median(series->stage[i]) * 1e3;
        text << '}';
      }
      text << "}\n";
    } else {
      text << std::left << std::setw(17) << shape << std::setw(8) << routing << std::setw(6)
           << name_of(options_.dtype) << std::setw(12) << way << std::setw(8) << pass << std::right
           << std::setprecision(2) << std::setw(7) << seconds * 1e3 << std::setprecision(1)
           << std::setw(8) << gflops << std::setw(10) << percent << "   ";
      if (series)
        for (int i = 0; i < kStages; ++i)
          text << std::setprecision(2) << std::setw(7) << median(series->stage[i]) * 1e3 << ' ';
      text << '\n';
    }
    out_ << text.str() << std::flush;
  }

 private:
  const BenchLayerOptions& options_;
  std::ostream& out_;
};

void bench_shape_and_routing(const BenchLayerOptions& options, const BenchShape& shape,
                             const std::string& kind, RankContext& ranks, Printer& printer) {
  const Backend& backend = *ranks.backend;
  const Tokens tokens = plain_tokens(backend, shape.tokens);
  const Tensor x_TH = backend.empty(options.dtype, {shape.tokens, shape.hidden});
  const Tensor dy_TH = backend.empty_like(x_TH);
  fill(x_TH, 1);
  fill(dy_TH, 0.5);
  std::vector<ForcedRouting> routings;
  for (int i = 0; i < kRoutingsInTurn; ++i) routings.push_back(draw_routing(shape, kind, i));
  std::vector<std::unique_ptr<LayerWay>> ways;
  for (const std::string& name : options.ways)
    ways.push_back(std::make_unique<LayerWay>(shape, name, options.dtype, ranks));
  const GemmRoof roof(backend, options.dtype);
  double peak = 0, product = 0;
  for (int round = -1; round < options.rounds; ++round) {  // round −1 warms up
    const auto& routing = routings[static_cast<std::size_t>(round + 1) % routings.size()];
    peak = std::max(peak, fma_peak_slice(options.dtype).gflops);
    product = std::max(product, roof.slice());
    for (const auto& way : ways) {
      const Sample forward = way->run(x_TH, dy_TH, tokens, routing, false);
      const Sample both = way->run(x_TH, dy_TH, tokens, routing, true);
      if (round < 0) continue;
      way->forward.add(forward);
      way->both.add(both);
    }
  }
  const double work = 6.0 * static_cast<double>(shape.tokens * shape.k) *
                      static_cast<double>(shape.hidden * shape.width) / 1e9;
  printer.line(shape.name, kind, "fma_peak", "best", 0, peak, peak, nullptr);
  printer.line(shape.name, kind, "plain_gemm", "best", 0, product, peak, nullptr);
  for (const auto& way : ways) {
    const double forward = median(way->forward.seconds), both = median(way->both.seconds);
    printer.line(shape.name, kind, way->name, "fwd", forward, work / forward, peak, &way->forward);
    printer.line(shape.name, kind, way->name, "fwd+bwd", both, 3 * work / both, peak, &way->both);
  }
}

}  // namespace

BenchShape bench_shape(const std::string& text) {
  static const std::vector<BenchShape> known = {{"C1", 512, 512, 512, 16, 2},
                                                {"C2", 2048, 512, 1024, 8, 2},
                                                {"C3", 1024, 1024, 512, 32, 4},
                                                {"C4", 2048, 1024, 512, 32, 8},
                                                {"C5", 1024, 2048, 1024, 64, 8}};
  for (const BenchShape& shape : known)
    if (shape.name == text) return shape;
  std::istringstream in(text);
  BenchShape s;
  s.name = text;
  char c[4] = {};
  in >> s.tokens >> c[0] >> s.hidden >> c[1] >> s.width >> c[2] >> s.experts >> c[3] >> s.k;
  const bool commas = std::all_of(c, c + 4, [](char at) { return at == ','; });
  constexpr Index kMost = 1 << 20;
  const auto fits = [](Index n) { return n >= 1 && n <= kMost; };
  if (in.fail() || in.peek() != std::istringstream::traits_type::eof() || !commas ||
      !fits(s.tokens) || !fits(s.hidden) || !fits(s.width) || !fits(s.experts) || s.k < 1 ||
      s.k > s.experts)
    throw Error(ExitCode::usage,
                str("shape '", text,
                    "' is neither C1, C2, C3, C4, C5 nor T,H,F,E,k (tokens, hidden "
                    "width, expert width, experts, experts a token) with 1 ≤ k ≤ E"));
  return s;
}

void bench_layer(const BenchLayerOptions& options, std::ostream& out) {
  for (const std::string& kind : options.routings)
    if (kind != "uniform" && kind != "zipf")
      throw Error(ExitCode::usage, str("routing '", kind, "' is not one of uniform zipf"));
  Printer printer(options, out);
  with_ranks(1, 1, [&](RankContext& ranks) {
    set_threads(options.threads);
    for (const BenchShape& shape : options.shapes)
      for (const std::string& kind : options.routings)
        bench_shape_and_routing(options, shape, kind, ranks, printer);
  });
}

}  // namespace moelab
