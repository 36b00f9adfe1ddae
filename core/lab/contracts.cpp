// T tokens, H hidden, E experts, P pair slots.
#include "core/lab/contracts.h"

#include <cmath>

#include "core/base/threads.h"
#include "core/lab/layer_bench.h"
#include "core/lab/ranks_contract.h"
#include "core/lab/tolerance.h"
#include "core/moe/forced_routing.h"
#include "core/moe/moe_params.h"

namespace moelab {
namespace {

constexpr double kDifference = 1e-5;  // step of finite differences

std::string on_one_rank(const std::function<std::string(RankContext&)>& body) {
  std::string broken;
  with_ranks(1, 1, [&](RankContext& ranks) {
    set_threads(1);  // small work; contracts say themselves where they want more
    broken = body(ranks);
  });
  return broken;
}

// --- documentation ---

class MissingDocs final : public ParamVisitor {
 public:
  std::string missing;

 private:
  void note(std::string_view key, std::string_view doc) {
    if (doc.empty()) missing += str(missing.empty() ? "" : ", ", key);
  }
  void boolean(std::string_view key, bool&, std::string_view doc) override { note(key, doc); }
  void integer(std::string_view key, std::int64_t&, std::string_view doc, const Rule&) override {
    note(key, doc);
  }
  void real(std::string_view key, double&, std::string_view doc, const Rule&) override {
    note(key, doc);
  }
  void text(std::string_view key, std::string&, std::string_view doc) override { note(key, doc); }
  void choice(std::string_view key, std::size_t&, std::span<const std::string_view>,
              std::string_view doc) override {
    note(key, doc);
  }
  void texts(std::string_view key, std::vector<std::string>&, std::string_view doc) override {
    note(key, doc);
  }
  void reals(std::string_view key, std::vector<double>&, std::string_view doc,
             const Rule&) override {
    note(key, doc);
  }
  void slot(std::string_view key, Slot&, std::string_view doc) override { note(key, doc); }
  void slots(std::string_view key, NamedSlots&, std::string_view doc) override { note(key, doc); }
  void enter(std::string_view key, std::string_view doc) override { note(key, doc); }
  void leave() override {}
};

std::string docs_broken(const ContractSubject& subject) {
  if (subject.entry->summary.empty()) return "its summary is empty";
  MissingDocs docs;
  const std::shared_ptr<void> params = subject.entry->default_params();
  subject.entry->describe(params.get(), docs);
  return docs.missing.empty() ? "" : "parameters without a doc: " + docs.missing;
}

// --- gradients ---

bool same_routing(const LayerRun& a, const LayerRun& b) {
  return a.record->plan->expert_P == b.record->plan->expert_P &&
         a.record->plan->fate_P == b.record->plan->fate_P;
}

// Compares `gradient` with central differences at about `samples` places of `value`. Places where
// the step changes who goes where have no derivative and are passed over.
std::string gradient_broken(LayerBench& bench, const LayerRun& base, const std::string& name,
                            const Tensor& value, const Tensor& gradient, Index samples,
                            Index& compared) {
  const Index stride = std::max<Index>(1, value.numel() / samples);
  for (Index i = 0; i < value.numel(); i += stride) {
    double& at = value.data<double>()[i];
    const double middle = at;
    at = middle + kDifference;
    const LayerRun above = bench.forward();
    at = middle - kDifference;
    const LayerRun below = bench.forward();
    at = middle;
    if (!same_routing(above, base) || !same_routing(below, base)) continue;
    ++compared;
    const double expected = (above.objective - below.objective) / (2 * kDifference);
    const double found = gradient ? gradient.data<double>()[i] : 0.0;
    if (!(std::abs(found - expected) <= kFiniteDifferenceTolerance * (1 + std::abs(expected))))
      return str("d/d ", name, "[", i, "] is ", found, ", differences give ", expected);
  }
  return "";
}

std::string gradients_broken(const ContractSubject& subject) {
  return on_one_rank([&](RankContext& ranks) -> std::string {
    LayerCase c;
    if (subject.params.router.traits().estimated_gradient) c.phase = Phase::eval;
    LayerBench bench(subject.params, c, ranks);
    const LayerRun base = bench.run();
    constexpr Index kInputSamples = 19, kParameterSamples = 7;
    Index compared = 0;
    std::string broken =
        gradient_broken(bench, base, "x", bench.x(), base.x_grad_TH, kInputSamples, compared);
    const std::vector<Parameter*> parameters = bench.parameters();
    for (std::size_t p = 0; p < parameters.size() && broken.empty(); ++p)
      broken = gradient_broken(bench, base, parameters[p]->name, parameters[p]->value,
                               base.gradients[p], kParameterSamples, compared);
    if (broken.empty() && compared < kInputSamples / 2)
      return str("only ", compared, " places could be compared: routing changes everywhere");
    return broken;
  });
}

// --- padding equals removal ---

Tensor valid_corner(const Backend& backend, const Tensor& full_TH, const LayerCase& c, Index rows,
                    Index columns) {
  const Tensor out = backend.empty(full_TH.dtype(), {rows * columns, c.hidden});
  for (Index row = 0; row < rows; ++row)
    copy(full_TH.rows(row * c.length, columns), out.rows(row * columns, columns));
  return out;
}

std::string padding_differs(const MoeParams& params, RankContext& ranks, const LayerCase& padded) {
  LayerCase removed = padded;
  removed.rows = padded.valid_rows < 0 ? padded.rows : padded.valid_rows;
  removed.length = padded.valid_columns < 0 ? padded.length : padded.valid_columns;
  removed.valid_rows = removed.valid_columns = -1;
  const LayerRun a = LayerBench(params, padded, ranks).run();
  const LayerRun b = LayerBench(params, removed, ranks).run();
  const Backend& backend = *ranks.backend;
  const auto corner = [&](const Tensor& t) {
    return valid_corner(backend, t, padded, removed.rows, removed.length);
  };
  if (a.record->routed_E != b.record->routed_E || a.record->kept_E != b.record->kept_E)
    return "counts differ";
  std::string broken = differs(corner(a.y_TH), b.y_TH, "output");
  if (broken.empty()) broken = differs(corner(a.x_grad_TH), b.x_grad_TH, "gradient of the input");
  if (!broken.empty()) return broken;
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    if (!(std::abs(a.losses[i] - b.losses[i]) <=
          tolerance(padded.dtype).composed * std::abs(b.losses[i])))
      return str("losses differ: ", a.losses[i], " and ", b.losses[i]);
  for (Index t = 0; t < padded.rows * padded.length; ++t) {
    if (t / padded.length < removed.rows && t % padded.length < removed.length) continue;
    const Tensor y_H = a.y_TH[t];
    if (!same_bits(y_H, backend.zeros(y_H.dtype(), y_H.shape())))
      return str("the output of padding token ", t, " is not exactly 0");
  }
  return "";
}

std::string padding_broken(const ContractSubject& subject) {
  return on_one_rank([&](RankContext& ranks) -> std::string {
    for (const DType dtype : {DType::f64, DType::f32}) {
      LayerCase whole_rows;
      whole_rows.dtype = dtype;
      whole_rows.valid_rows = 2;
      std::string broken = padding_differs(subject.params, ranks, whole_rows);
      // Other lengths mean other global ids, hence other draws.
      if (broken.empty() && !subject.params.router.traits().stochastic &&
          !subject.params.dropper.traits().stochastic) {
        LayerCase row_ends;
        row_ends.dtype = dtype;
        row_ends.valid_columns = 5;
        broken = padding_differs(subject.params, ranks, row_ends);
      }
      if (!broken.empty()) return str(broken, " (", name_of(dtype), ")");
    }
    return "";
  });
}

// --- the same bits ---

std::string bits_differ(const LayerRun& a, const LayerRun& b) {
  if (!same_bits(a.y_TH, b.y_TH)) return "outputs differ";
  if (!same_bits(a.x_grad_TH, b.x_grad_TH)) return "gradients of the input differ";
  for (std::size_t i = 0; i < a.gradients.size(); ++i)
    if (!same_bits(a.gradients[i], b.gradients[i])) return str("gradient ", i, " differs");
  if (a.losses != b.losses) return "losses differ";
  if (!same_routing(a, b)) return "routing differs";
  return "";
}

LayerCase wide_case() {  // enough work for more than one thread
  LayerCase c;
  c.dtype = DType::f32;
  c.rows = 4;
  c.length = 96;
  c.hidden = 48;
  c.valid_columns = 90;
  return c;
}

std::string determinism_broken(const ContractSubject& subject) {
  return on_one_rank([&](RankContext& ranks) -> std::string {
    const auto run = [&](int count) {
      set_threads(count);
      return LayerBench(subject.params, wide_case(), ranks).run();
    };
    const LayerRun one = run(1), again = run(1), two = run(2);
    if (const std::string broken = bits_differ(one, again); !broken.empty())
      return broken + " between two runs";
    if (const std::string broken = bits_differ(one, two); !broken.empty())
      return broken + " between 1 and 2 threads";
    return "";
  });
}

std::string recompute_broken(const ContractSubject& subject) {
  return on_one_rank([&](RankContext& ranks) {
    LayerCase c = wide_case();
    const LayerRun plain = LayerBench(subject.params, c, ranks).run();
    c.recompute = true;
    return bits_differ(plain, LayerBench(subject.params, c, ranks).run());
  });
}

// --- pairs ---

Index total(const std::vector<Index>& counts) {
  Index sum = 0;
  for (const Index count : counts) sum += count;
  return sum;
}

// Rows of the layer's dispatcher: as many as kept pairs and filler, experts' rows in token order,
// and combining ones gives each token its number of kept pairs.
std::string dispatch_broken(const MoeParams& params, LayerBench& bench, const LayerRun& run,
                            RankContext& ranks) {
  const RoutingPlan plan = network_pairs(*run.record->plan, params.num_experts);
  const auto dispatcher = params.dispatcher.make({ranks, params.num_experts});
  Tape tape(*ranks.backend, Tape::Mode::forward);
  const Tensor weight_P = ranks.backend->zeros(DType::f64, {plan.pairs()});
  const Dispatched sent = dispatcher->dispatch(tape, tape.constant(bench.x()), plan,
                                               tape.constant(weight_P), bench.tokens());
  const Index expected = total(plan.counts_kept()) + total(plan.filler_E);
  if (sent.rows.rows() != expected)
    return str(sent.rows.rows(), " rows for ", expected, " kept pairs and filler rows");
  const Tensor one_RH = ranks.backend->zeros(DType::f64, {expected, bench.x().size(1)});
  for (double& value : one_RH.span<double>()) value = 1;
  const Tensor y_TH = dispatcher->combine(tape, tape.constant(one_RH), sent).value;
  for (Index t = 0; t < plan.tokens; ++t) {
    double kept = 0;
    for (Index p = plan.begin(t); p < plan.end(t); ++p)
      kept += plan.fate_P[static_cast<std::size_t>(p)] == PairFate::kept ? 1 : 0;
    if (y_TH[t].data<double>()[0] != kept)
      return str("token ", t, " gets ", y_TH[t].data<double>()[0], " rows back, kept ", kept);
  }
  return "";
}

std::string pairs_broken(const ContractSubject& subject) {
  return on_one_rank([&](RankContext& ranks) -> std::string {
    LayerCase c;
    c.length = 16;
    c.valid_columns = 13;
    LayerBench bench(subject.params, c, ranks);
    const LayerRun run = bench.forward();
    const RoutingRecord& record = *run.record;
    record.plan->validate();
    const Index routed = total(record.routed_E), kept = total(record.kept_E);
    if (record.valid_tokens != c.rows * c.valid_columns)
      return str(record.valid_tokens, " valid tokens of ", c.rows * c.valid_columns);
    if (routed != kept + record.dropped_capacity)
      return str(routed, " routed, ", kept, " kept, ", record.dropped_capacity, " dropped");
    if (const Index k = subject.params.router.traits().k;
        k > 0 && routed != k * record.valid_tokens)
      return str(routed, " pairs routed of ", record.valid_tokens, " tokens with k = ", k);
    return dispatch_broken(subject.params, bench, run, ranks);
  });
}

// --- size ---

std::string size_broken(const ContractSubject& subject) {
  return on_one_rank([&](RankContext& ranks) -> std::string {
    const LayerCase c;
    LayerBench bench(subject.params, c, ranks);
    Index all = 0, experts = 0;
    for (const Parameter* p : bench.parameters()) {
      all += p->value.numel();
      if (p->placement == Placement::expert) experts += p->value.numel();
    }
    const LayerCost cost = moe_cost(subject.params, c.hidden, 1);
    if (cost.parameters != all || cost.expert_parameters != experts)
      return str("the layer has ", all, " parameters, ", experts,
                 " of them the experts'; counted: ", cost.parameters, " and ",
                 cost.expert_parameters);
    return "";
  });
}

// --- replay ---

// Forced to its own routing a layer does the same; forced to another, it follows.
std::string replay_broken(const ContractSubject& subject) {
  return on_one_rank([&](RankContext& ranks) -> std::string {
    LayerCase c;
    c.valid_columns = 6;
    const LayerRun own = LayerBench(subject.params, c, ranks).run();
    ForcedRouting forced = forced_routing(*own.record->plan);
    c.forced = &forced;
    if (const std::string broken = bits_differ(own, LayerBench(subject.params, c, ranks).run());
        !broken.empty())
      return broken + " when its own routing is forced on it";
    for (std::int32_t& expert : forced.expert_P)
      if (expert >= 0) expert = (expert + 1) % static_cast<std::int32_t>(own.record->experts);
    const LayerRun other = LayerBench(subject.params, c, ranks).run();
    return other.record->plan->expert_P == forced.expert_P ? "" : "forced routing is not followed";
  });
}

template <class Family>
void add_subjects(std::vector<ContractSubject>& out,
                  const std::function<void(MoeParams&, const std::string&)>& put) {
  for (const auto& [name, entry] : Registry<Family>::get().entries()) {
    ContractSubject subject{std::string(Family::family), name, {}, &entry};
    put(subject.params, name);
    out.push_back(std::move(subject));
  }
}

}  // namespace

std::vector<ContractSubject> contract_subjects() {
  std::vector<ContractSubject> out;
  add_subjects<Router>(out, [](MoeParams& p, const std::string& n) { p.router.choose(n); });
  add_subjects<Balancer>(out,
                         [](MoeParams& p, const std::string& n) { p.balancers.add(n).choose(n); });
  add_subjects<Dropper>(out, [](MoeParams& p, const std::string& n) { p.dropper.choose(n); });
  add_subjects<Dispatcher>(out, [](MoeParams& p, const std::string& n) { p.dispatcher.choose(n); });
  add_subjects<Experts>(out, [](MoeParams& p, const std::string& n) { p.experts.choose(n); });
  add_subjects<Shared>(out, [](MoeParams& p, const std::string& n) { p.shared.choose(n); });
  add_subjects<FreeExpert>(
      out, [](MoeParams& p, const std::string& n) { p.free_experts.add(n).choose(n); });
  return out;
}

std::span<const Contract> contracts() {
  static const std::vector<Contract> all{
      {"docs", "the component and each of its parameters say what they are", docs_broken},
      {"gradients", "of the layer's objective, against finite differences in f64",
       gradients_broken},
      {"padding", "padding tokens change nothing and come out as exactly 0", padding_broken},
      {"determinism", "two runs, and 1 and 2 threads, give the same bits", determinism_broken},
      {"recompute", "a recomputed segment gives the same bits", recompute_broken},
      {"pairs", "every pair is accounted for: routed = kept + dropped = dispatched + dropped",
       pairs_broken},
      {"size", "explain counts the parameters that the layer has", size_broken},
      {"replay", "routing that is forced is followed, and a recorded one gives the same bits",
       replay_broken},
      {"ranks", "two ranks give the results of one", ranks_broken}};
  return all;
}

}  // namespace moelab
