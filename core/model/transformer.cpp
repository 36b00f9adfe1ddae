// T tokens, H hidden, V vocabulary, E experts.
#include "core/model/transformer.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/moe/forced_routing.h"

namespace moelab {
namespace {

Parameter vocabulary_table(const ModelSpec& spec, const Backend& backend, const char* name) {
  return make_parameter(backend, spec.dtype, name, {spec.vocabulary, spec.section.hidden},
                        {Init::Kind::normal, spec.section.init_std}, true);
}

// Documents as attention sees them: padding is a document of its own, which no token belongs to.
Tensor attention_documents(const Backend& backend, const Tokens& tokens) {
  const auto valid_T = tokens.valid_T.span<std::uint8_t>();
  if (std::ranges::find(valid_T, 0) == valid_T.end()) return tokens.document_T;
  const Tensor out = backend.empty(DType::i32, {tokens.count()});
  for (Index t = 0; t < tokens.count(); ++t)
    out.data<std::int32_t>()[t] =
        valid_T[static_cast<std::size_t>(t)] == 0 ? -1 : tokens.document_T.data<std::int32_t>()[t];
  return out;
}

// Runs a block as one recomputed segment. What the block leaves behind besides Variables comes
// from the first pass; the Variables are the segment's outputs on the outer tape.
FfnOutput recomputed(Tape& tape, Block& block, const Variable& x_TH,
                     const Variable& previous_logits_TE, const BlockInput& input) {
  FfnOutput first;
  std::vector<Variable> inputs{x_TH};
  if (previous_logits_TE) inputs.push_back(previous_logits_TE);
  const auto segment = [&block, &first, input](Tape& t, const std::vector<Variable>& in) {
    FfnOutput out = block.forward(t, in[0], in.size() > 1 ? in[1] : Variable{}, input);
    std::vector<Variable> outputs{out.y_TH};
    for (const LossTerm& term : out.losses) outputs.push_back(term.value);
    if (out.routing)
      outputs.insert(outputs.end(),
                     {out.routing->weight_P, out.routing->logits_TE, out.routing->scores_TE});
    if (!t.replaying()) first = std::move(out);  // the second pass may outlive `first`
    return outputs;
  };
  const std::vector<Variable> outputs = recompute(tape, inputs, segment);
  auto next = outputs.begin();
  first.y_TH = *next++;
  for (LossTerm& term : first.losses) term.value = *next++;
  if (first.routing) {
    first.routing->weight_P = *next++;
    first.routing->logits_TE = *next++;
    first.routing->scores_TE = *next++;
  }
  return first;
}

}  // namespace

Transformer::Transformer(const ModelSpec& spec, const RankContext& ranks)
    : spec_(spec), ranks_(ranks) {
  const ModelSection& section = spec_.section;
  const Backend& backend = *ranks.backend;
  const auto layers = static_cast<double>(spec_.layers.size());
  const double output_std =
      section.scale_residual_init ? section.init_std / std::sqrt(2 * layers) : section.init_std;
  embedding_ = vocabulary_table(spec_, backend, "model.embed_tokens.weight");
  for (const std::string& kind : spec_.layers) {
    const auto layer = static_cast<Index>(blocks_.size());
    blocks_.push_back(std::make_unique<Block>(
        section, spec_.ffn.at(kind),
        Ffn::Context{ranks_, spec_.dtype, section.hidden, layer, section.init_std, output_std,
                     section.router_init_std, str("model.layers.", layer, ".mlp")}));
  }
  final_norm_ = section.norm.make(
      {*ranks.backend, spec_.dtype, section.hidden, section.norm_eps, "model.norm"});
  if (!section.tied_embeddings) head_ = vocabulary_table(spec_, backend, "lm_head.weight");
  parameters([&](Parameter& p) { initialize(p, spec_.seed); });
}

std::vector<ForcedRouting> recorded_routing(const ModelOutput& output, Index blocks) {
  std::vector<ForcedRouting> forced(static_cast<std::size_t>(blocks));
  for (const auto& record : output.records)
    forced.at(static_cast<std::size_t>(record->layer)) = forced_routing(*record->plan);
  return forced;
}

ModelOutput Transformer::forward(Tape& tape, const Tokens& tokens, const Tensor& target_T,
                                 const Moment& when, const StepFacts& facts,
                                 const ForwardOptions& options) {
  Moment moment = when;
  moment.seed = spec_.seed;
  BlockInput input{tokens, attention_documents(*ranks_.backend, tokens), moment, facts,
                   // In generation every rank holds the same rows: nothing is summed over them.
                   std::make_shared<ScopeMaps>(tokens, options.cache ? nullptr : ranks_.dp),
                   nullptr, options.noise, options.cache, options.compare_forced};
  ModelOutput out;
  std::vector<Routing> routings;
  std::vector<Ffn*> moe_ffns;
  Variable x_TH = embedding(tape, tape.leaf(embedding_), tokens.id_T);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    input.forced = options.forced ? &options.forced->at(i) : nullptr;
    if (input.forced && input.forced->offset_T1.empty()) input.forced = nullptr;
    FfnOutput block = run_block(tape, *blocks_[i], x_TH,
                                routings.empty() ? Variable{} : routings.back().logits_TE, input);
    x_TH = block.y_TH;
    std::ranges::move(block.losses, std::back_inserter(out.losses));
    if (!block.routing) continue;
    moe_ffns.push_back(&blocks_[i]->ffn());
    out.records.push_back(block.record);
    routings.push_back(std::move(*block.routing));
  }
  std::vector<LossTerm> pooled;
  // The first layer that has such a loss speaks for all.
  for (std::size_t i = 0; i < moe_ffns.size() && pooled.empty(); ++i)
    pooled = moe_ffns[i]->pooled_losses(
        tape, routings, {{}, tokens, moment, facts, nullptr, nullptr, {}, input.scopes});
  std::ranges::move(pooled, std::back_inserter(out.losses));
  if (options.cache) options.cache->advance(tokens.length);
  finish(tape, final_norm_->forward(tape, x_TH), target_T, options.want_logits, out);
  return out;
}

FfnOutput Transformer::run_block(Tape& tape, Block& block, const Variable& x_TH,
                                 const Variable& previous_logits_TE,
                                 const BlockInput& input) const {
  const auto& parts = spec_.section.recompute;
  const bool again = tape.records() && std::ranges::find(parts, "block") != parts.end();
  return again ? recomputed(tape, block, x_TH, previous_logits_TE, input)
               : block.forward(tape, x_TH, previous_logits_TE, input);
}

void Transformer::finish(Tape& tape, const Variable& x_TH, const Tensor& target_T, bool want_logits,
                         ModelOutput& out) {
  if (!target_T && !want_logits) return;
  const Variable logits_TV =
      linear(tape, x_TH, tape.leaf(spec_.section.tied_embeddings ? embedding_ : head_));
  if (target_T) out.loss_sum = cross_entropy_sum(tape, logits_TV, target_T);
  if (want_logits) out.logits_TV = logits_TV;
}

void Transformer::parameters(const std::function<void(Parameter&)>& visit) {
  visit(embedding_);
  for (const auto& block : blocks_) block->parameters(visit);
  final_norm_->parameters(visit);
  if (head_.value) visit(head_);
}

std::vector<StateStore*> Transformer::states() {
  std::vector<StateStore*> out;
  for (const auto& block : blocks_)
    if (StateStore* state = block->ffn().state()) out.push_back(state);
  return out;
}

void Transformer::begin_step() {
  for (const auto& block : blocks_) block->ffn().begin_step();
}

void Transformer::after_step(const std::map<Index, StepLoad>& load_of_layer) {
  for (const auto& [layer, load] : load_of_layer) ffn(layer).after_step(load);
}

}  // namespace moelab
