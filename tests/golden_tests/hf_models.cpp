// Tiny whole models with the numbers that their own code gives (transformers, f32, eager): logits,
// loss, gradients, experts chosen, greedy continuation.
#include <algorithm>

#include "core/checkpoint/import.h"
#include "core/checkpoint/safetensors.h"
#include "core/model/generate.h"
#include "tests/golden_tests/hf_recipe.h"
#include "tests/moe/moe_fixture.h"
#include "tests/support/models.h"

namespace moelab::test {
namespace {

using testing::integers;
constexpr double kTolerance = golden_tolerance(DType::f32);

testing::Batch batch_of(const Tensor& ids, const Backend& backend) {
  std::vector<std::vector<std::int32_t>> rows;
  for (Index row = 0; row < ids.size(0); ++row) rows.push_back(integers(ids[row]));
  return testing::batch_of(backend, rows);
}

Values numbers(const SafetensorsReader& reader, const std::string& name) {
  const auto backend = Backend::cpu();
  if (reader.entries().at(name).dtype == "I64") {
    const auto whole = integers(reader.read(name, *backend));
    return {whole.begin(), whole.end()};
  }
  const Tensor flat = backend->empty(DType::f64, {reader.entries().at(name).numel()});
  reader.read_elements(name, 0, flat);
  return doubles(flat);
}

// Mixtral's names of our pieces.
std::string mixtral_name(std::string name) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    if (const auto at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  };
  replace(".mlp.", ".block_sparse_moe.");
  if (name.find("experts") == std::string::npos) return name;
  replace("gate_proj", "w1");
  replace("up_proj", "w3");
  replace("down_proj", "w2");
  return name;
}

void compare_gradients(Comparison& to, Transformer& model, const SafetensorsReader& expected) {
  std::size_t wanted = 0, found = 0;
  for (const auto& [name, entry] : expected.entries()) wanted += name.starts_with("grad.") ? 1 : 0;
  model.parameters([&](Parameter& p) {
    const std::vector<Tensor> grads = p.split(p.grad);
    for (std::size_t i = 0; i < p.pieces.size(); ++i)
      for (const std::string& name : {p.pieces[i].name, mixtral_name(p.pieces[i].name)}) {
        if (!expected.has("grad." + name)) continue;
        to.same("grad." + name, doubles(grads[i]), numbers(expected, "grad." + name), kTolerance);
        ++found;
        break;
      }
  });
  to.exact("number of gradients", static_cast<double>(found), static_cast<double>(wanted));
}

// `layers`: the names of the MoE layers in the file, in order.
void compare_step(Comparison& to, Transformer& model, const SafetensorsReader& expected,
                  const std::vector<std::string>& layers) {
  const testing::Batch batch =
      batch_of(expected.read("input_ids", model.backend()), model.backend());
  const StepFacts facts = testing::facts_of(batch.tokens);
  Tape tape(model.backend());
  ForwardOptions options;
  options.want_logits = true;
  const ModelOutput out = model.forward(tape, batch.tokens, batch.target_T, {}, facts, options);
  to.same("logits", doubles(out.logits_TV.value), numbers(expected, "logits"), kTolerance);
  const auto targets = static_cast<double>(batch.tokens.rows * (batch.tokens.length - 1));
  to.same("loss", Values{testing::number(out.loss_sum.value) / targets}, numbers(expected, "loss"),
          kTolerance);
  to.exact("number of MoE layers", static_cast<double>(out.records.size()),
           static_cast<double>(layers.size()));
  for (std::size_t i = 0; i < std::min(layers.size(), out.records.size()); ++i)
    to.exact("ids of layer " + layers[i], out.records[i]->plan->expert_P,
             numbers(expected, "topk_ids." + layers[i]));
  tape.seed(out.loss_sum, 1 / targets);
  tape.backward();
  compare_gradients(to, model, expected);
}

void compare_greedy(Comparison& to, Transformer& model, const SafetensorsReader& expected) {
  const std::vector<std::int32_t> wanted = integers(expected.read("greedy", model.backend()));
  Sampling greedy;
  greedy.temperature = 0;
  greedy.tokens = static_cast<Index>(wanted.size());
  to.exact("greedy tokens",
           generate(model, integers(expected.read("prompt", model.backend())), greedy),
           Values(wanted.begin(), wanted.end()));
}

Outcome run_case(const GoldenCase& c) {
  const GoldenCase config = c.object("config");
  const HfRecipe recipe = hf_recipe(config, c.text("family"));
  if (!recipe.missing.empty()) return Outcome::not_yet(recipe.missing);
  c.ignore({"seed", "min_choice_gap", "min_greedy_margin"});
  const std::vector<std::string> layers =
      c.given("router_layers") ? c.list("router_layers") : std::vector<std::string>{};
  const std::string folder = c.folder + "/" + c.name;
  const SafetensorsReader expected(folder + "/expected.safetensors");
  Comparison to;
  testing::on_one_rank([&](RankContext& ranks) {
    Transformer model(testing::spec_of(recipe.text, config.integer("vocab_size"), DType::f32),
                      ranks);
    import_weights(model, folder);
    compare_step(to, model, expected, layers);
    compare_greedy(to, model, expected);
  });
  return to.outcome();
}

const RegisterSuite registered{"hf_models", run_case};

}  // namespace
}  // namespace moelab::test
