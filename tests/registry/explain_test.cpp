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

// The recipe above with other feed-forward networks than experts of width 24.
std::string with_table(const std::string& table) {
  std::string text = recipe("");
  const std::string old = "num_experts = 4\nexperts.width = 24\n";
  return text.replace(text.find(old), old.size(), table);
}

std::vector<std::string> recipes() {
  std::vector<std::string> out{
      recipe(""), recipe("tied_embeddings = true\nqk_norm = true\n"),
      recipe("attention_bias = true\nhead_dim = 10\nnorm = \"layer_norm\"\nqk_norm = true\n"),
      with_table("kind = \"switch\"\nnum_experts = 4\nwidth = 24\n")};
  for (const char* moe :
       {"experts.bias = true\nexperts.activation = \"gelu\"\nrouter.bias = true\n",
        "shared = { type = \"plain\", width = 40, bias = true }\n",
        "shared = { type = \"gated\", width = 40 }\nlatent = 12\nexperts.bias = true\n",
        "shared = { type = \"residual\", width = 24 }\nrouter.gating_residual = true\n",
        "free_experts = { zero = {}, copy = { count = 2 }, constant = { count = 3 } }\n",
        "experts.weight_at = \"output\"\n", "experts.weight_at = \"input\"\n"})
    out.push_back(recipe("", moe));
  return out;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("explain counts the parameters that a model has") {
  const toy::Folder folder;
  for (const std::string& text : recipes()) {
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
  const std::vector<std::vector<std::int32_t>> rows(4, std::vector<std::int32_t>(16, 65));
  for (const std::string& text : recipes()) {
    const RunConfig config = config_of(folder, text);
    testing::on_one_rank([&](RankContext& ranks) {
      Transformer model = model_of(config, ranks);
      const testing::Batch batch = testing::batch_of(*ranks.backend, rows);
      const std::size_t before = ranks.backend->arena().counters().live_bytes;
      Tape tape(*ranks.backend);
      const ModelOutput out =
          model.forward(tape, batch.tokens, batch.target_T, {}, testing::facts_of(batch.tokens));
      const auto held = static_cast<double>(ranks.backend->arena().counters().live_bytes - before);
      CAPTURE(text);
      CHECK(static_cast<double>(run_cost(config).activation_bytes) ==
            doctest::Approx(held).epsilon(0.25));
    });
  }
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

TEST_CASE("active parameters and FLOPs count what a token meets") {
  const toy::Folder folder;
  const auto cost = [&](const std::string& moe) {
    return run_cost(config_of(folder, recipe("", moe)));
  };
  const RunCost plain = cost("");
  const auto more = [&](const RunCost& other) {
    return other.active_parameters - plain.active_parameters;
  };
  const auto flops = [&](const RunCost& other) {
    return other.forward_flops - plain.forward_flops;
  };
  const Index expert = 3 * 32 * 24, layers = 2;

  const RunCost shared = cost("shared = { type = \"plain\", width = 40 }\n");
  CHECK(more(shared) == layers * 3 * 32 * 40);
  CHECK(shared.parameters - plain.parameters == more(shared));
  CHECK(flops(shared) == doctest::Approx(2.0 * layers * 3 * 32 * 40));

  // Four of six expert ids are networks: of two choices that are spread evenly, 4/3 are.
  const RunCost free = cost("free_experts = { copy = { count = 2 } }\n");
  CHECK(more(free) == doctest::Approx(layers * (2 * 32 - expert * 2 / 3.0)));
  CHECK(free.parameters - plain.parameters == layers * 2 * 32);

  const RunCost latent = cost("latent = 8\n");
  CHECK(more(latent) == layers * (2 * 32 * 8 + 2 * (3 * 8 * 24 - expert)));

  const RunCost switched =
      run_cost(config_of(folder, with_table("kind = \"switch\"\nnum_experts = 4\nwidth = 24\n")));
  const Index network = 2 * 32 * 24 + 24 + 32, gate_bias = 4;
  CHECK(more(switched) == layers * (network + gate_bias - 2 * expert));
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

TEST_CASE("explain says what stands around the routed experts") {
  const toy::Folder folder;
  const std::string path =
      folder.write("r.toml", recipe("",
                                    "latent = 8\nshared = { type = \"gated\", width = 40 }\n"
                                    "free_experts = { copy = { count = 2 } }\n"
                                    "experts.activation = \"clamped_swiglu\"\n"));
  const std::string text = explain_recipe(path, {});
  CHECK(has(text, "moe, 6 experts (2 of them free) of width 24"));
  CHECK(has(text, "latent: z = A x of width 8"));
  CHECK(has(text, "experts (grouped): expert(x) = down(a), a = g · sigmoid(1.702 g)"));
  CHECK(has(text, "experts 4 to 5 (copy): expert(x) = x"));
  CHECK(has(text, "shared (gated): y = routed + sigmoid(g . x) * down(silu(gate) · up)"));
}

TEST_CASE("a gating residual between layers of different size is an error that names them") {
  const toy::Folder folder;
  const std::string text = recipe("", "router.gating_residual = true\n");
  CHECK_NOTHROW(config_of(folder, text));
  std::string uneven = text;
  uneven.replace(uneven.find("\"moe*2\""), 7, "\"few\", \"moe\"");
  uneven += "[ffn.few]\nkind = \"moe\"\nnum_experts = 2\n";
  try {
    config_of(folder, uneven);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(has(error.what(), "ffn.moe.router.gating_residual"));
    CHECK(has(error.what(), "reads the logits of [ffn.few] before it, which has 2 experts, not 4"));
  }
}
