// T tokens, H hidden.
#include "core/model/block.h"

namespace moelab {

Block::Block(const ModelSection& section, const Component<Ffn>& ffn, const Ffn::Context& context)
    : layer_(context.layer), dropout_(section.dropout) {
  Backend& backend = *context.ranks.backend;
  const std::string name = str("model.layers.", layer_);
  const auto norm = [&](const char* which) {
    return section.norm.make(
        {backend, context.dtype, section.hidden, section.norm_eps, name + "." + which});
  };
  attention_norm_ = norm("input_layernorm");
  attention_ = std::make_unique<Attention>(
      section, Attention::Context{backend, context.dtype, layer_, name + ".self_attn",
                                  context.init_std, context.output_init_std});
  ffn_norm_ = norm("post_attention_layernorm");
  ffn_ = ffn.make(context);
}

FfnOutput Block::forward(Tape& tape, const Variable& x_TH, const Variable& previous_logits_TE,
                         const BlockInput& input) {
  const Variable attended = attention_->forward(tape, attention_norm_->forward(tape, x_TH),
                                                input.tokens, input.document_T, input.cache);
  const Variable middle = add(tape, x_TH, drop(tape, attended, "attention", input));
  FfnOutput out = ffn_->forward(
      tape, {ffn_norm_->forward(tape, middle), input.tokens, input.moment, input.facts,
             input.forced, input.noise, previous_logits_TE, input.scopes, input.compare_forced});
  out.y_TH = add(tape, middle, drop(tape, out.y_TH, "ffn", input));
  return out;
}

Variable Block::drop(Tape& tape, const Variable& x_TH, const char* site,
                     const BlockInput& input) const {
  const Moment& moment = input.moment;
  if (dropout_ == 0 || moment.phase != Phase::train) return x_TH;
  const Rng rng(
      moment.seed, str("dropout/", layer_, "/", site),
      static_cast<std::uint64_t>(moment.step * moment.micro_batches + moment.micro_batch));
  return dropout(tape, x_TH, dropout_, rng, input.tokens.global_id(0));
}

void Block::parameters(const std::function<void(Parameter&)>& visit) {
  attention_norm_->parameters(visit);
  attention_->parameters(visit);
  ffn_norm_->parameters(visit);
  ffn_->parameters(visit);
}

}  // namespace moelab
