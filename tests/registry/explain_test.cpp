#include "core/lab/explain.h"

#include <doctest/doctest.h>

#include "core/lab/cost.h"
#include "tests/registry/toy.h"
#include "tests/support/models.h"

using namespace moelab;

namespace {

std::string recipe(const std::string& model, const std::string& moe = "") {
  return "[model]\nhidden = 32\nheads = 4\nkv_heads = 2\nlayers = [\"first\", \"moe*2\"]\n" +
         model +
         "\n[ffn.first]\nkind = \"dense\"\nwidth = 40\n"
         "[ffn.moe]\nnum_experts = 4\nexperts.width = 24\n" +
         moe +
         "\n[data]\nsequence_length = 16\ndataset.path = \"missing\"\n[schedule]\ntype = "
         "\"constant\"\n[train]\nsteps = 3\nbatch = 4\n";
}

RunConfig config_of(const toy::Folder& folder, const std::string& text) {
  Report report;
  return load_run_config(folder.write("r.toml", text), {}, report);
}

Transformer model_of(const RunConfig& config, RankContext& ranks) {
  return Transformer({config.model, config.layer_kinds(), config.ffn, 256, DType::f32, 1}, ranks);
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("explain counts the parameters that a model has") {
  const toy::Folder folder;
  for (const std::string& text :
       {recipe(""), recipe("tied_embeddings = true\nqk_norm = true\n"),
        recipe("attention_bias = true\nhead_dim = 10\nnorm = \"layer_norm\"\nqk_norm = true\n"),
        recipe("", "experts.bias = true\nexperts.activation = \"gelu\"\nrouter.bias = true\n")}) {
    const RunConfig config = config_of(folder, text);
    Index counted = 0;
    testing::on_one_rank([&](RankContext& ranks) {
      Transformer model = model_of(config, ranks);
      model.parameters([&](Parameter& parameter) { counted += parameter.value.numel(); });
    });
    CAPTURE(text);
    CHECK(run_cost(config).parameters == counted);
    CHECK(run_cost(config).checkpoint_bytes == 3 * 4 * counted);
  }
}

TEST_CASE("explain's saved activations are near what a forward leaves in the arena") {
  const toy::Folder folder;
  const RunConfig config = config_of(folder, recipe(""));
  const std::vector<std::vector<std::int32_t>> rows(4, std::vector<std::int32_t>(16, 65));
  testing::on_one_rank([&](RankContext& ranks) {
    Transformer model = model_of(config, ranks);
    const testing::Batch batch = testing::batch_of(*ranks.backend, rows);
    const std::size_t before = ranks.backend->arena().counters().live_bytes;
    Tape tape(*ranks.backend);
    const ModelOutput out =
        model.forward(tape, batch.tokens, batch.target_T, {}, testing::facts_of(batch.tokens));
    const double held = static_cast<double>(ranks.backend->arena().counters().live_bytes - before);
    CHECK(static_cast<double>(run_cost(config).activation_bytes) ==
          doctest::Approx(held).epsilon(0.25));
  });
}

TEST_CASE("active parameters and FLOPs follow from k") {
  const toy::Folder folder;
  const RunCost one = run_cost(config_of(folder, recipe("", "router.k = 1\n")));
  const RunCost two = run_cost(config_of(folder, recipe("", "router.k = 2\n")));
  const Index expert = 3 * 32 * 24;  // gate, up and down, in each of two layers
  CHECK(two.parameters == one.parameters);
  CHECK(two.active_parameters - one.active_parameters == 2 * expert);
  CHECK(two.forward_flops - one.forward_flops == doctest::Approx(2.0 * 2 * expert));
  CHECK(two.training_flops == doctest::Approx(3 * two.forward_flops));
}

TEST_CASE("explain tells origins, formulas and what is not known") {
  const toy::Folder folder;
  folder.write("base.toml", recipe("", "router.k = 1\n"));
  const std::string path =
      folder.write("r.toml", "base = \"base.toml\"\n[ffn.moe.router]\nscore_first = true\n");
  const std::vector<std::string> sets{"train.batch=8"};
  const std::string text = explain_recipe(path, sets);
  CHECK(has(text, "train.batch = 8 "));
  CHECK(has(text, " --set\n"));
  CHECK(has(text, " base " + folder.path("base.toml") + ":2:10\n"));
  CHECK(has(text, " recipe " + path + ":3:15\n"));
  CHECK(has(text, "block 0: [ffn.first], dense of width 40"));
  CHECK(has(text, "blocks 1 to 2: [ffn.moe], moe, 4 experts of width 24"));
  CHECK(has(text, "route (softmax): "));
  CHECK(has(text, "epochs  unknown: data not found ("));
  CHECK(has(text, "steps   3\n  tokens  384\n"));
  CHECK_THROWS_AS(explain_recipe(folder.path("none.toml"), {}), Error);
}
