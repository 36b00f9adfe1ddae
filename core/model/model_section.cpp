#include "core/model/model_section.h"

namespace moelab {

void ModelSection::describe(ParamVisitor& v) {
  v("seed", seed, "of initial values and the model's random draws; -1: run.seed", at_least(-1));
  v("hidden", hidden, "width of the residual stream", between(1, 1e7));
  v("vocabulary", vocabulary,
    "rows of the embedding and the head; 0: the tokenizer's number of tokens; more: rows that no "
    "token uses, as in models whose tables are padded",
    between(0, 1e8));
  v("layers", layers, "the [ffn.<name>] table of each block, in order; \"name*3\" repeats");
  v("heads", heads, "attention heads", between(1, 1e6));
  v("kv_heads", kv_heads, "heads of keys and values; divides heads", between(1, 1e6));
  v("head_dim", head_dim, "width of a head; 0: hidden / heads", between(0, 1e6));
  v("rope_theta", rope_theta, "base of the rotary positions' wavelengths", greater_than(0));
  v("qk_norm", qk_norm, "normalise queries and keys");
  v("qk_norm_width", qk_norm_width, "what qk_norm runs over: each head, or all of them together");
  v("attention_bias", attention_bias, "biases in the attention projections");
  v("tied_embeddings", tied_embeddings, "the head shares the embedding's weights");
  v("dropout", dropout, "on the branches, while training", from_below(0, 1));
  v("norm_eps", norm_eps, "added to the mean square before its root", greater_than(0));
  v("init_std", init_std, "standard deviation of initial weights", at_least(0));
  v("router_init_std", router_init_std, "of the routers' gates", at_least(0));
  v("scale_residual_init", scale_residual_init,
    "divide the std of projections into the residual stream by sqrt(2 * layers)");
  v("recompute", recompute, "parts run again in backward instead of saved: \"block\"");
  v("norm", norm, "what stands before attention, ffn and head");
}

}  // namespace moelab
