#include "tests/golden_tests/hf_recipe.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "registry/text.h"

namespace moelab::test {
namespace {

// Bookkeeping, and what only acts with a setting that is checked below.
const std::vector<std::string> kSayNothing{"architectures",
                                           "bos_token_id",
                                           "eos_token_id",
                                           "pad_token_id",
                                           "dtype",
                                           "model_type",
                                           "initializer_range",
                                           "max_position_embeddings",
                                           "output_router_logits",
                                           "use_cache",
                                           "transformers_version",
                                           "router_aux_loss_coef",
                                           "max_window_layers",
                                           "pretraining_tp",
                                           "vocab_size"};

bool on(const GoldenCase& c, const std::string& flag) { return c.given(flag) && c.flag(flag); }
bool nonzero(const GoldenCase& c, const std::string& param) {
  return c.given(param) && c.number(param) != 0;
}

// The first of these names that is given.
std::string first(const GoldenCase& c, std::initializer_list<const char*> names) {
  std::string found;
  for (const char* name : names)
    if (c.given(name) && found.empty()) found = c.text(name);
  return found;
}

std::string missing(const GoldenCase& c, const std::string& family) {
  if (c.given("kv_lora_rank")) return "attention with latent keys and values (" + family + ")";
  if (c.given("rope_parameters") && c.object("rope_parameters").text("rope_type") != "default")
    return "scaled rotary positions (" + family + ")";
  if (c.given("embedding_multiplier")) return "multipliers of the residual stream (" + family + ")";
  if (family.starts_with("qwen2"))
    return "biases of queries, keys and values without one of the output (" + family + ")";
  if (c.given("clip_qkv")) return "clipped queries and keys (" + family + ")";
  if (nonzero(c, "shared_expert_intermediate_size") || nonzero(c, "n_shared_experts"))
    return "shared experts (" + family + ")";
  return "";
}

void require_plain(const GoldenCase& c) {
  const auto refuse = [](const std::string& what) {
    throw std::runtime_error("does not know " + what);
  };
  if (c.given("hidden_act") && c.text("hidden_act") != "silu") refuse("this hidden_act");
  if (nonzero(c, "attention_dropout") || nonzero(c, "router_jitter_noise")) refuse("this noise");
  if (on(c, "use_sliding_window") || nonzero(c, "sliding_window")) refuse("sliding windows");
  if (on(c, "mlp_bias")) refuse("mlp_bias");
  if (c.given("layer_types"))
    for (const std::string& type : c.list("layer_types"))
      if (type != "full_attention") refuse("attention of type " + type);
}

// Which layers are dense.
std::vector<bool> dense_layers(const GoldenCase& c, bool has_experts) {
  const Index layers = c.integer("num_hidden_layers");
  const Index every = c.given("decoder_sparse_step") ? c.integer("decoder_sparse_step") : 1;
  const Index first_moe = c.given("first_k_dense_replace") ? c.integer("first_k_dense_replace") : 0;
  std::set<std::string> only;
  if (c.given("mlp_only_layers"))
    for (const std::string& layer : c.list("mlp_only_layers")) only.insert(layer);
  std::vector<bool> dense;
  for (Index i = 0; i < layers; ++i)
    dense.push_back(!has_experts || i < first_moe || (i + 1) % every != 0 ||
                    only.contains(std::to_string(i)));
  return dense;
}

std::string model_table(const GoldenCase& c, const std::string& family,
                        const std::vector<bool>& dense) {
  std::string layers;
  for (const bool d : dense) layers += str(layers.empty() ? "" : ", ", d ? "\"dense\"" : "\"moe\"");
  const std::string theta = c.given("rope_parameters")
                                ? c.object("rope_parameters").text("rope_theta")
                                : first(c, {"rope_theta"});
  std::string text = str("[model]\nhidden = ", c.text("hidden_size"), "\nlayers = [", layers,
                         "]\nheads = ", c.text("num_attention_heads"),
                         "\nkv_heads = ", c.text("num_key_value_heads"),
                         "\nnorm_eps = ", c.text("rms_norm_eps"), "\nrope_theta = ", theta, "\n");
  if (c.given("head_dim")) text += "head_dim = " + c.text("head_dim") + "\n";
  if (on(c, "attention_bias")) text += "attention_bias = true\n";
  if (on(c, "tie_word_embeddings")) text += "tied_embeddings = true\n";
  if (family.starts_with("qwen3")) text += "qk_norm = true\n";
  if (family == "olmoe") text += "qk_norm = true\nqk_norm_width = \"projection\"\n";
  return text;
}

std::string moe_table(const GoldenCase& c, const std::string& family, const std::string& experts,
                      const std::string& balancers) {
  const bool normalized = family == "mixtral" || on(c, "norm_topk_prob");
  return str("[ffn.moe]\nkind = \"moe\"\nnum_experts = ", experts,
             "\nrouter = { type = \"softmax\", k = ", c.text("num_experts_per_tok"),
             normalized ? "" : ", score_first = true",
             " }\nexperts = { type = \"grouped\", width = ",
             first(c, {"moe_intermediate_size", "intermediate_size"}), " }\n", balancers);
}

}  // namespace

HfRecipe hf_recipe(const GoldenCase& config, const std::string& family,
                   const std::string& balancers) {
  HfRecipe out;
  out.missing = missing(config, family);
  if (!out.missing.empty()) return out;
  static const std::set<std::string> known{"mixtral", "qwen3_moe", "qwen3", "olmoe", "llama"};
  if (!known.contains(family)) throw std::runtime_error("does not know the family " + family);
  config.ignore(kSayNothing);
  require_plain(config);
  const std::string experts = first(config, {"num_local_experts", "num_experts"});
  const std::vector<bool> dense = dense_layers(config, !experts.empty());
  out.text = model_table(config, family, dense);
  if (!experts.empty()) out.text += moe_table(config, family, experts, balancers);
  config.ignore({"intermediate_size"});  // of dense layers, which there may not be
  if (std::ranges::find(dense, true) != dense.end())
    out.text += "[ffn.dense]\nkind = \"dense\"\nwidth = " + config.text("intermediate_size") + "\n";
  return out;
}

}  // namespace moelab::test
