#include "tests/golden_tests/training_recipe.h"

#include <stdexcept>

#include "core/moe/balancer.h"
#include "registry/text.h"
#include "tests/golden_tests/hf_recipe.h"

namespace moelab::test {
namespace {

std::string balancer(const std::string& label, const std::string& lines) {
  return str("[ffn.moe.balancers.", label, "]\n", lines, "\n");
}

// The suite's own model; its doc has the formulas.
std::string plain_model(const GoldenCase& m) {
  const Index dense = m.integer("dense_layers");
  const std::string score = m.text("score");
  if (score != "softmax" && score != "sigmoid")
    throw std::runtime_error("does not know the score " + score);
  const std::string moe = str("\"moe*", m.integer("layers") - dense, "\"");
  std::string text =
      str("[model]\nhidden = ", m.text("hidden"), "\nlayers = [",
          dense > 0 ? str("\"dense*", dense, "\", ") : "", moe, "]\nheads = ", m.text("heads"),
          "\nkv_heads = ", m.text("kv_heads"), "\nhead_dim = ", m.text("head_dim"),
          "\nnorm_eps = ", m.text("eps"), "\nrope_theta = ", m.text("rope_theta"),
          "\n[ffn.moe]\nkind = \"moe\"\nnum_experts = ", m.text("experts"),
          "\nexperts = { type = \"grouped\", width = ", m.text("expert_hidden"),
          " }\nrouter = { type = \"", score, "\", k = ", m.text("top_k"),
          score == "softmax" ? ", score_first = true" : "", ", normalize = ", m.text("normalise"),
          " }\n");
  if (m.number("aux_coefficient") != 0)
    text += balancer("aux", "type = \"aux_loss\"\ncounts = \"routed\"\ncoefficient = " +
                                m.text("aux_coefficient"));
  if (m.number("z_coefficient") != 0)
    text += balancer("z", "type = \"z_loss\"\ncoefficient = " + m.text("z_coefficient"));
  if (m.number("bias_rate") != 0)
    text += balancer("bias", "type = \"expert_bias\"\nupdate_rate = " + m.text("bias_rate"));
  m.ignore({"dense_hidden"});
  if (dense > 0) text += "[ffn.dense]\nkind = \"dense\"\nwidth = " + m.text("dense_hidden") + "\n";
  return text;
}

std::string optimizer(const GoldenCase& o) {
  const auto betas = o.list("betas");
  return str("clip_norm = ", o.text("clip"),
             "\n[schedule]\ntype = \"warmup_cosine\"\nlearning_rate = ", o.text("lr"),
             "\nwarmup_steps = ", o.text("warmup"), "\nmin_ratio = ", o.text("min_ratio"),
             "\n[optimizer]\ntype = \"adamw\"\nbeta1 = ", betas.at(0), "\nbeta2 = ", betas.at(1),
             "\neps = ", o.text("eps"), "\nweight_decay = ", o.text("weight_decay"), "\n");
}

}  // namespace

TrainingRecipe::TrainingRecipe(const GoldenCase& c) {
  const GoldenCase adam = c.object("optimizer");
  steps = adam.integer("steps");
  rest_ = str("[eval]\nfinal = false\n[sample]\nfinal = false\n[train]\nsteps = ", steps,
              "\nbatch = ", c.text("batch"), "\n", optimizer(adam));
  rest_ += str("[data]\nsequence_length = ", c.text("length"), "\n");
  c.ignore({"seed"});  // of the case's own weights and tokens
  if (!c.given("config")) {
    const GoldenCase model = c.object("model");
    vocabulary = model.integer("vocab");
    dense_layers = model.integer("dense_layers");
    model_ = plain_model(model);
    return;
  }
  c.ignore({"model"});  // the class's name
  const GoldenCase config = c.object("config");
  vocabulary = config.integer("vocab_size");
  // Pooled over all layers; theirs is k at balance, ours 1.
  const double pooled = config.number("router_aux_loss_coef");
  const std::string balancers =
      pooled == 0 ? ""
                  : balancer("aux", str("type = \"pooled_aux\"\ncoefficient = ",
                                        exact(pooled * config.number("num_experts_per_tok"))));
  const HfRecipe recipe = hf_recipe(config, c.text("family"), balancers);
  model_ = recipe.text;
  missing = recipe.missing;
  if (missing.empty() && pooled != 0 && !Component<Balancer>().choose("pooled_aux"))
    missing = "the balancer pooled_aux";
}

std::string TrainingRecipe::text(DType dtype, const std::string& data_path) const {
  return str("[run]\ndtype = \"", name_of(dtype), "\"\n", model_, rest_,
             "dataset = { type = \"text\", path = \"", data_path, "\" }\n");
}

}  // namespace moelab::test
