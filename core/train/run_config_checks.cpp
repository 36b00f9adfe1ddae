#include "core/train/run_config_checks.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/train/index_set.h"

namespace moelab {
namespace {

class RunChecks {
 public:
  RunChecks(const RunConfig& config, const Node& root, Report& report)
      : c_(config), root_(root), report_(report), check_(report, "") {}

  void run() {
    check_layers();
    check_attention();
    check_length();
    check_device();
    check_parallel();
    check_batch();
    check_evaluation();
    check_sampling();
    check_trace();
    check_components();
  }

 private:
  // Patterns of model.layers, each at its own place; names need a table, tables need a use.
  void check_layers() {
    std::set<std::string> used;
    std::int64_t total = 0;
    for (std::size_t i = 0; i < c_.model.layers.size(); ++i) {
      const std::string& text = c_.model.layers[i];
      const std::optional<LayerPattern> pattern = parse_layer_pattern(text);
      if (!pattern) {
        at_layer(i, "is not of the form \"name\" or \"name*count\"");
        continue;
      }
      total = std::min(total + pattern->count, kMaxLayers + 1);
      used.insert(pattern->name);
      if (!c_.ffn.contains(pattern->name)) used.insert(missing_table(i, pattern->name));
    }
    if (c_.model.layers.empty()) check_.error("model.layers", "names no layer");
    if (total > kMaxLayers) check_.error("model.layers", "has more than ", kMaxLayers, " layers");
    for (const auto& [name, ffn] : c_.ffn)
      if (!used.contains(name))
        check_.error("ffn." + name, "is used by no layer; name it in model.layers or remove it");
  }

  void at_layer(std::size_t index, const std::string& text) {
    Source source = report_.source_of("model.layers");
    const Node* model = root_.find("model");
    const Node* layers = model ? model->find("layers") : nullptr;
    const auto* items = layers ? std::get_if<Node::Array>(&layers->value) : nullptr;
    if (items && index < items->size()) source = (*items)[index].source;
    report_.problem({Problem::Severity::error, source,
                     str("model.layers: ", toml_string(c_.model.layers[index]), " ", text),
                     "model.layers"});
  }

  // Returns the table that was probably meant, or "".
  std::string missing_table(std::size_t index, const std::string& name) {
    std::vector<std::string> known;
    for (const auto& [table, ffn] : c_.ffn) known.push_back(table);
    const std::string nearest = suggest(name, known);
    at_layer(index, nearest.empty()
                        ? str("needs a table [ffn.", name, "] with its kind")
                        : str("names no table [ffn.", name, "]; did you mean '", nearest, "'?"));
    return nearest;
  }

  void check_attention() {
    const ModelSection& m = c_.model;
    if (m.heads % m.kv_heads != 0)
      check_.error("model.heads", "must be divisible by model.kv_heads = ", m.kv_heads);
    if (m.head_dim == 0 && m.hidden % m.heads != 0)
      check_.error("model.hidden", "must be divisible by model.heads = ", m.heads,
                   ", or give model.head_dim");
    else if ((m.head_dim > 0 ? m.head_dim : m.hidden / m.heads) % 2 != 0)
      check_.error(m.head_dim > 0 ? "model.head_dim" : "model.heads",
                   m.head_dim > 0 ? "" : str("makes heads ", m.hidden / m.heads, " wide; a head "),
                   "must be even, since rotary positions turn pairs");
    for (const std::string& part : m.recompute)
      if (part != "block")
        check_.error("model.recompute", "holds ", toml_string(part),
                     ", which is not one of: \"block\"");
  }

  void check_length() {
    const TrainSection& t = c_.train;
    const std::int64_t step = t.batch * c_.data.sequence_length;
    if (t.steps > 0 && t.tokens > 0)
      check_.error("train.tokens", "and train.steps = ", t.steps,
                   " both set the length of the run; remove one");
    else if (t.steps == 0 && t.tokens == 0)
      check_.error("train.steps", "leaves the run without a length; give train.steps or ",
                   "train.tokens");
    if (t.tokens % step != 0)
      check_.error("train.tokens", "must be divisible by the ", step,
                   " tokens of a step (train.batch * data.sequence_length); the nearest is ",
                   std::max(step, (t.tokens + step / 2) / step * step));
  }

  void check_device() {
    static constexpr std::array<std::string_view, 1> kKnown{"cpu"};
    if (c_.run.device == "cuda")
      check_.error("run.device", "cannot run a recipe yet; use \"cpu\"");
    else if (c_.run.device != "cpu")
      check_.error("run.device", "is not one of: \"cpu\"",
                   suggest(c_.run.device, kKnown).empty() ? "" : "; did you mean 'cpu'?");
  }

  void check_parallel() {
    const ParallelSection& p = c_.parallel;
    const auto refuse = [&](std::string_view key, std::int64_t degree) {
      if (degree > 1)
        check_.error(str("parallel.", key), "is not built yet; the nearest layout is ", key,
                     " = 1 with ranks = ", p.ranks, ", dp = ", p.ranks,
                     ", ep = ", nearest_expert_ranks());
    };
    refuse("tp", p.tp);
    refuse("pp", p.pp);
    refuse("etp", p.etp);
    if (p.ranks % p.ep != 0)
      check_.error("parallel.ep", "must divide parallel.ranks = ", p.ranks, "; the nearest is ",
                   nearest_expert_ranks());
    if (p.ep > 1 && !any_moe())
      check_.error("parallel.ep", "has no experts to spread: no layer of model.layers is a moe");
    if (p.world.chosen() && !p.world.traits().sets_ranks && p.ranks > 1)
      check_.error("parallel.ranks", "is only for worlds that start their own ranks; ",
                   "the launcher of \"", p.world.name(), "\" sets their number");
  }

  // The largest divisor of ranks that is at most ep.
  std::int64_t nearest_expert_ranks() const {
    std::int64_t ep = std::min(c_.parallel.ep, c_.parallel.ranks);
    while (c_.parallel.ranks % ep != 0) --ep;
    return ep;
  }

  void check_batch() {
    const TrainSection& t = c_.train;
    if (t.batch % t.accumulate != 0)
      check_.error("train.accumulate", "must divide train.batch = ", t.batch);
    else if (t.batch / t.accumulate % dp() != 0)
      check_.error("train.batch", "/ train.accumulate = ", t.batch / t.accumulate,
                   " rows of a micro-batch must be divisible by the ", dp(),
                   " data-parallel ranks");
    if (c_.eval.batch % dp() != 0)
      check_.error("eval.batch", "must be divisible by the ", dp(), " data-parallel ranks");
  }

  void check_evaluation() {
    if ((c_.eval.every == 0 && !c_.eval.final) || !c_.data.dataset.chosen()) return;
    if (!c_.data.dataset.traits().heldout)
      check_.warning("data.dataset.heldout_fraction", "holds out no text: ",
                     c_.eval.every > 0 ? str("eval.every = ", c_.eval.every) : "eval.final = true",
                     " will measure nothing; raise it, or set eval.every = 0 and "
                     "eval.final = false");
  }

  void check_sampling() {
    if (generates() && c_.sample.prompt.empty())
      check_.error("sample.prompt", "must hold at least one character");
  }

  void check_trace() {
    const auto steps = IndexSet::parse(c_.trace.steps), layers = IndexSet::parse(c_.trace.layers);
    constexpr const char* kForm = "is not of the form \"all\" or \"1-20, 100-1000/100\"";
    if (!steps) check_.error("trace.steps", kForm);
    if (!layers) return check_.error("trace.layers", kForm);
    if (!steps || steps->empty()) return;
    if (!any_moe())
      check_.error("trace.steps", "has no routing to record: no layer of model.layers is a moe");
    const auto count = static_cast<Index>(c_.layer_kinds().size());
    if (layers->largest() >= count)
      check_.error("trace.layers", "names block ", layers->largest(), "; the last is ", count - 1);
  }

  void check_components() {
    if (c_.model.norm.chosen()) c_.model.norm.check({}, report_);
    if (c_.data.tokenizer.chosen()) {
      c_.data.tokenizer.check({}, report_);
      const Index tokens = c_.data.tokenizer.traits().vocabulary;
      if (c_.model.vocabulary > 0 && c_.model.vocabulary < tokens)
        check_.error("model.vocabulary", "is less than the ", tokens,
                     " tokens of data.tokenizer \"", c_.data.tokenizer.name(),
                     "\"; raise it, or 0 to take the tokenizer's number");
    }
    if (c_.data.dataset.chosen()) c_.data.dataset.check({c_.data.sequence_length}, report_);
    if (c_.parallel.world.chosen()) c_.parallel.world.check({}, report_);
    if (c_.optimizer.chosen()) c_.optimizer.check({}, report_);
    if (c_.schedule.chosen()) c_.schedule.check({c_.total_steps()}, report_);
    const Ffn::Facts facts = ffn_facts(c_);
    for (const auto& [name, ffn] : c_.ffn)
      if (ffn.chosen()) ffn.check(facts, report_);
    if (report_.has_errors()) return;
    check_previous_logits();
    check_pooled_losses();
  }

  // A loss over all MoE layers expert by expert needs as many in each.
  void check_pooled_losses() {
    const std::vector<std::string> moe = moe_layers();
    for (const std::string& pooling : moe) {
      const Ffn::Traits traits = c_.ffn.at(pooling).traits();
      if (traits.sums_layers.empty()) continue;
      for (const std::string& other : moe)
        if (const Index experts = c_.ffn.at(other).traits().experts; experts != traits.experts)
          return check_.error(str("ffn.", pooling, ".balancers.", traits.sums_layers),
                              "takes all MoE layers as one, but [ffn.", other, "] has ", experts,
                              " experts, not ", traits.experts,
                              "; give all of them as many, or take a loss of each layer");
    }
  }

  // The tables of the MoE layers, block by block.
  std::vector<std::string> moe_layers() const {
    std::vector<std::string> out;
    for (const std::string& name : c_.layer_kinds()) {
      const auto at = c_.ffn.find(name);
      if (at != c_.ffn.end() && at->second.chosen() && at->second.traits().moe) out.push_back(name);
    }
    return out;
  }

  // A gating residual maps the logits of the MoE layer before: as many experts.
  void check_previous_logits() {
    std::string before;
    for (const std::string& name : moe_layers()) {
      const Ffn::Traits traits = c_.ffn.at(name).traits();
      const Index others = before.empty() ? traits.experts : c_.ffn.at(before).traits().experts;
      if (traits.reads_previous_logits && others != traits.experts)
        return check_.error(str("ffn.", name, ".router.gating_residual"),
                            "reads the logits of [ffn.", before, "] before it, which has ", others,
                            " experts, not ", traits.experts,
                            "; give both as many, or turn it off");
      before = name;
    }
  }

  std::int64_t dp() const { return ffn_facts(c_).dp; }
  bool generates() const { return ffn_facts(c_).generates; }
  bool any_moe() const {
    return std::any_of(c_.ffn.begin(), c_.ffn.end(), [](const auto& item) {
      return item.second.chosen() && item.second.traits().moe;
    });
  }

  const RunConfig& c_;
  const Node& root_;
  Report& report_;
  Checker check_;
};

}  // namespace

Ffn::Facts ffn_facts(const RunConfig& config) {
  const ParallelSection& p = config.parallel;
  Ffn::Facts facts;
  facts.hidden = config.model.hidden;
  facts.rows_per_micro_batch = config.train.batch / config.train.accumulate;
  facts.rows_per_evaluation = config.rows_per_evaluation();
  facts.length = config.data.sequence_length;
  facts.micro_batches = config.train.accumulate;
  facts.ranks = p.ranks;
  facts.ep = p.ep;
  facts.dp = p.ranks;  // tp and pp are 1, or refused
  facts.generates = config.sample.every > 0 || config.sample.final;
  facts.evaluates = config.eval.every > 0 || config.eval.final;
  return facts;
}

void refuse_unbuilt_names(const Node& root, Report& report) {
  const auto refuse = [&](std::string_view path, const Node* value, std::string_view name,
                          std::string_view instead) {
    const auto* given = value ? std::get_if<std::string>(&value->value) : nullptr;
    if (given && *given == name)
      report.problem(
          {Problem::Severity::error, value->source,
           str(path, " = ", toml_string(name), " is not built yet; use ", toml_string(instead)),
           std::string(path)});
  };
  if (const Node* run = root.find("run")) refuse("run.dtype", run->find("dtype"), "bf16", "f32");
  const Node* parallel = root.find("parallel");
  const Node* world = parallel ? parallel->find("world") : nullptr;
  if (!world) return;
  const Node* name = world->table() ? world->find("type") : world;
  for (const std::string_view unbuilt : {"mpi", "nccl"})
    refuse("parallel.world.type", name, unbuilt, "inproc");
}

void check_run_config(const RunConfig& config, const Node& root, Report& report) {
  RunChecks(config, root, report).run();
}

}  // namespace moelab
