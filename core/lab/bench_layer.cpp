// T tokens, H hidden, E experts, R rows.
#include "core/lab/bench_layer.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>

#include "core/base/threads.h"
#include "core/lab/layer_bench.h"
#include "core/lab/machine_peak.h"
#include "core/lab/peer_figures.h"
#include "core/lab/samples.h"
#include "registry/error.h"
#include "registry/recipe.h"

namespace moelab {
namespace {

constexpr std::uint64_t kSeed = 17;

// Up to so many tokens forward reads weights once for a few rows: memory sets the pace, and only
// forward is timed.
constexpr Index kDecodeTokens = 16;
bool decodes(const BenchShape& shape) { return shape.tokens <= kDecodeTokens; }

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

// Bytes of the weights that a forward pass over these tokens has to read.
double chosen_bytes(const BenchShape& shape, const ForcedRouting& routing, DType dtype) {
  const std::set<std::int32_t> chosen(routing.expert_P.begin(), routing.expert_P.end());
  return 3.0 * static_cast<double>(static_cast<Index>(chosen.size()) * shape.hidden * shape.width) *
         static_cast<double>(size_of(dtype));
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

struct Series {                                              // the samples of one way and pass
  std::vector<double> seconds, weight_rate, stage[kStages];  // weight_rate: GB/s
  void add(const Sample& s, double weight_bytes) {
    weight_rate.push_back(weight_bytes / s.seconds / 1e9);
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

struct Line {
  std::string way;
  const char* pass = "";
  double seconds = 0, gflops = 0;
  const Series* series = nullptr;  // null: a limit
};

class Printer {
 public:
  Printer(const BenchLayerOptions& options, const PeerFigures& peers, std::ostream& out)
      : options_(options), peers_(peers), out_(out) {
    if (options.json) return;
    out << "shape            routing dtype way         pass       ms    GF/s  % of peak   weights "
           "GB/s  % of read   route permute dispatch experts combine (ms)"
        << (peers.given() ? kPeerColumns : "") << '\n';
  }

  // Of what follows; read: GB/s of reading, 0 where memory does not set the pace.
  void roofs(const BenchShape& shape, const std::string& routing, double peak, double read) {
    shape_ = shape.name, routing_ = routing, peak_ = peak, read_ = read;
  }

  void line(const Line& line) {
    const double percent = peak_ > 0 ? 100 * line.gflops / peak_ : 0;
    std::ostringstream text;
    text << std::fixed;
    options_.json ? json(line, percent, text) : row(line, percent, text);
    out_ << text.str() << std::flush;
  }

 private:
  std::optional<PeerFigure> best(const Line& line) const {
    PeerWork work;
    work.kind = "layer";
    work.name = shape_;
    work.routing = routing_;
    work.dtype = name_of(options_.dtype);
    work.pass = line.pass;
    return peers_.best(work, options_.threads);
  }

  void json(const Line& line, double percent, std::ostream& text) const {
    text << std::setprecision(3) << R"({"shape":")" << shape_ << R"(","routing":")" << routing_
         << R"(","dtype":")" << name_of(options_.dtype) << R"(","way":")" << line.way
         << R"(","pass":")" << line.pass << R"(","ms_median":)" << line.seconds * 1e3
         << ",\"gflops\":" << line.gflops << ",\"percent_of_peak\":" << percent
         << ",\"threads\":" << options_.threads;
    if (line.series) {
      if (read_ > 0) {
        const double rate = median(line.series->weight_rate);
        text << ",\"weight_gigabytes_s\":" << rate << ",\"percent_of_read\":" << 100 * rate / read_;
      }
      text << ",\"stage_ms\":{";
      for (int i = 0; i < kStages; ++i)
        text << (i ? "," : "") << '"' << kStageNames[i]
             << "\":" << median(line.series->stage[i]) * 1e3;
      text << '}';
      print_peer_json(text, peers_, best(line), line.seconds * 1e3);
    }
    text << "}\n";
  }

  void row(const Line& line, double percent, std::ostream& text) const {
    text << std::left << std::setw(17) << shape_ << std::setw(8) << routing_ << std::setw(6)
         << name_of(options_.dtype) << std::setw(12) << line.way << std::setw(8) << line.pass
         << std::right << std::setprecision(2) << std::setw(7) << line.seconds * 1e3
         << std::setprecision(1) << std::setw(8) << line.gflops << std::setw(10) << percent
         << "   ";
    if (line.series) {
      const double rate = median(line.series->weight_rate);
      if (read_ > 0)
        text << std::setw(12) << rate << std::setw(11) << 100 * rate / read_ << "  ";
      else
        text << std::setw(12) << '-' << std::setw(11) << '-' << "  ";
      for (int i = 0; i < kStages; ++i)
        text << std::setprecision(2) << std::setw(7) << median(line.series->stage[i]) * 1e3 << ' ';
      print_peer_columns(text, peers_, best(line), line.seconds * 1e3);
    }
    text << '\n';
  }

  const BenchLayerOptions& options_;
  const PeerFigures& peers_;
  std::ostream& out_;
  std::string shape_, routing_;
  double peak_ = 0, read_ = 0;
};

void bench_shape_and_routing(const BenchLayerOptions& options, const BenchShape& shape,
                             const std::string& kind, RankContext& ranks, Printer& printer) {
  constexpr Index kMostRead = Index{1} << 30;
  const Backend& backend = *ranks.backend;
  const Tokens tokens = plain_tokens(backend, shape.tokens);
  const Tensor x_TH = backend.empty(options.dtype, {shape.tokens, shape.hidden});
  const Tensor dy_TH = backend.empty_like(x_TH);
  fill(x_TH, 1);
  fill(dy_TH, 0.5);
  std::vector<std::unique_ptr<LayerWay>> ways;
  for (const std::string& name : options.ways)
    ways.push_back(std::make_unique<LayerWay>(shape, name, options.dtype, ranks));
  const GemmRoof roof(backend, options.dtype);
  std::optional<ReadRoof> memory;  // as large as all weights, or larger than caches
  if (decodes(shape)) {
    const auto weights = static_cast<std::size_t>(3 * shape.experts * shape.hidden * shape.width);
    const auto bytes = static_cast<Index>(weights * size_of(options.dtype));
    memory.emplace(backend, std::min<Index>(kMostRead, bytes));
  }
  double peak = 0, product = 0, read = 0;
  for (int round = -1; round < options.rounds; ++round) {  // round −1 warms up
    const ForcedRouting routing = draw_routing(shape, kind, round + 1);
    const double bytes = chosen_bytes(shape, routing, options.dtype);
    peak = std::max(peak, fma_peak_slice(options.dtype).gflops);
    product = std::max(product, roof.slice());
    if (memory) read = std::max(read, memory->slice());
    for (const auto& way : ways) {
      const Sample forward = way->run(x_TH, dy_TH, tokens, routing, false);
      if (round >= 0) way->forward.add(forward, bytes);
      if (memory) continue;
      const Sample both = way->run(x_TH, dy_TH, tokens, routing, true);
      if (round >= 0) way->both.add(both, bytes);
    }
  }
  printer.roofs(shape, kind, peak, read);
  printer.line({"fma_peak", "best", 0, peak});
  printer.line({"plain_gemm", "best", 0, product});
  const double work = 6.0 * static_cast<double>(shape.tokens * shape.k) *
                      static_cast<double>(shape.hidden * shape.width) / 1e9;
  for (const auto& way : ways) {
    const double forward = median(way->forward.seconds), both = median(way->both.seconds);
    printer.line({way->name, "fwd", forward, work / forward, &way->forward});
    if (both > 0) printer.line({way->name, "fwd+bwd", both, 3 * work / both, &way->both});
  }
}

}  // namespace

BenchShape bench_shape(const std::string& text) {
  static const std::vector<BenchShape> known = {
      {"C1", 512, 512, 512, 16, 2},    {"C2", 2048, 512, 1024, 8, 2},
      {"C3", 1024, 1024, 512, 32, 4},  {"C4", 2048, 1024, 512, 32, 8},
      {"C5", 1024, 2048, 1024, 64, 8}, {"C9", 1, 2048, 1024, 64, 8}};
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
                    "' is neither C1, C2, C3, C4, C5, C9 nor T,H,F,E,k (tokens, hidden "
                    "width, expert width, experts, experts a token) with 1 ≤ k ≤ E"));
  return s;
}

void bench_layer(const BenchLayerOptions& options, std::ostream& out) {
  for (const std::string& kind : options.routings)
    if (kind != "uniform" && kind != "zipf")
      throw Error(ExitCode::usage, str("routing '", kind, "' is not one of uniform zipf"));
  const PeerFigures peers(options.against, "layer");
  Printer printer(options, peers, out);
  with_ranks(1, 1, [&](RankContext& ranks) {
    set_threads(options.threads);
    for (const BenchShape& shape : options.shapes)
      for (const std::string& kind : options.routings)
        bench_shape_and_routing(options, shape, kind, ranks, printer);
  });
}

}  // namespace moelab
