// Weights of other projects, read from files in their various forms; what the models then compute
// is compared by moelab_golden_tests (hf_models).
#include <doctest/doctest.h>

#include <algorithm>

#include "core/checkpoint/import.h"
#include "core/checkpoint/safetensors.h"
#include "core/lab/op_checks.h"
#include "core/model/generate.h"
#include "test_paths.h"
#include "tests/support/models.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tolerance.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

const std::string golden_folder = MOELAB_SOURCE_DIR "/tests/golden/hf_models/";
constexpr Index kVocabulary = 128;

struct Family {
  std::string name, recipe;
};

const std::string moe_table =
    "[ffn.moe]\nkind = \"moe\"\nnum_experts = 8\nrouter = { type = \"softmax\", k = 2 }\n"
    "experts = { type = \"grouped\", width = 12 }\n";

const Family qwen3_moe{"qwen3_moe",
                       "[model]\nhidden = 32\nlayers = [\"moe*2\"]\nheads = 4\nkv_heads = 2\n"
                       "head_dim = 16\nrope_theta = 1e6\nqk_norm = true\ntied_embeddings = true\n"
                       "norm_eps = 1e-6\n" +
                           moe_table};
void with_family(const Family& family,
                 const std::function<void(Transformer&, const SafetensorsReader&)>& body) {
  on_one_rank([&](RankContext& ranks) {
    Transformer model(spec_of(family.recipe, kVocabulary, DType::f32), ranks);
    import_weights(model, golden_folder + family.name);
    body(model, SafetensorsReader(golden_folder + family.name + "/expected.safetensors"));
  });
}

std::vector<Tensor> weights(Transformer& model) {
  std::vector<Tensor> out;
  model.parameters([&](Parameter& p) { out.push_back(p.value); });
  return out;
}

using Tensors = std::map<std::string, Tensor>;

Tensors read_all(const std::string& file, const Backend& backend) {
  const SafetensorsReader reader(file);
  Tensors out;
  for (const auto& [name, entry] : reader.entries()) out[name] = reader.read(name, backend);
  return out;
}

void write_all(const std::string& file, const Tensors& tensors) {
  std::vector<SafetensorsWriter::Item> items;
  for (const auto& [name, value] : tensors) items.push_back({name, value.dtype(), value.shape()});
  SafetensorsWriter writer(file, items);
  for (const auto& [name, value] : tensors) writer.add(name, value);
  writer.finish();
}

// Qwen3-MoE with one tensor for all experts of a layer: gate_up_proj [E, 2F, H], down_proj
// [E, H, F].
Tensors fused(const Tensors& each, const Backend& backend) {
  constexpr Index kE = 8, kF = 12, kH = 32;
  Tensors out;
  for (const auto& [name, value] : each)
    if (name.find(".experts.") == std::string::npos) out[name] = value;
  for (const char* layer : {"model.layers.0.mlp.experts", "model.layers.1.mlp.experts"}) {
    const Tensor up = backend.empty(DType::f32, {kE, 2 * kF, kH});
    const Tensor down = backend.empty(DType::f32, {kE, kH, kF});
    for (Index e = 0; e < kE; ++e) {
      const auto weight = [&](const char* part) {
        return each.at(str(layer, ".", e, ".", part, "_proj.weight"));
      };
      copy(weight("gate"), up[e].rows(0, kF));
      copy(weight("up"), up[e].rows(kF, kF));
      copy(weight("down"), down[e]);
    }
    out[str(layer, ".gate_up_proj")] = up;
    out[str(layer, ".down_proj")] = down;
  }
  return out;
}

std::string import_error(Transformer& model, const std::string& path) {
  try {
    import_weights(model, path);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::checkpoint);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("fused experts and shards give the same weights as one tensor an expert") {
  with_family(qwen3_moe, [&](Transformer& model, const SafetensorsReader&) {
    const Backend& backend = model.backend();
    std::vector<Tensor> wanted;
    for (const Tensor& weight : weights(model)) {
      wanted.push_back(backend.empty_like(weight));
      copy(weight, wanted.back());
    }
    const Tensors each = read_all(golden_folder + "qwen3_moe/model.safetensors", backend);
    const TemporaryFolder folder;
    write_all(folder.path("fused.safetensors"), fused(each, backend));
    Tensors halves[2];
    std::string map;
    for (std::size_t i = 0; const auto& [name, value] : each) {
      const std::size_t half = i++ % 2;
      halves[half][name] = value;
      map += str(map.empty() ? "" : ", ", '"', name, "\": \"part-", half, ".safetensors\"");
    }
    write_all(folder.path("part-0.safetensors"), halves[0]);
    write_all(folder.path("part-1.safetensors"), halves[1]);
    folder.write("model.safetensors.index.json",
                 "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {" + map + "}}");
    for (const std::string& path : {folder.path("fused.safetensors"), folder.path()}) {
      INFO(path);
      model.parameters([](Parameter& p) { fill_zero(p.value); });
      import_weights(model, path);
      const std::vector<Tensor> got = weights(model);
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(compare(got[i], wanted[i], "weight").worst == 0);
    }
  });
}

TEST_CASE("weights that do not fit are named: missing, unfit and left over") {
  with_family(qwen3_moe, [&](Transformer& model, const SafetensorsReader&) {
    const Backend& backend = model.backend();
    Tensors tensors = read_all(golden_folder + "qwen3_moe/model.safetensors", backend);
    tensors.erase("model.layers.1.mlp.experts.5.up_proj.weight");
    tensors["model.norm.weight"] = backend.zeros(DType::f32, {31});
    tensors["model.layers.9.extra"] = backend.zeros(DType::f32, {1});
    const TemporaryFolder folder;
    write_all(folder.path("model.safetensors"), tensors);
    const std::string text = import_error(model, folder.path());
    CHECK(text.find("missing: model.layers.1.mlp.experts.5.up_proj.weight") != std::string::npos);
    CHECK(text.find("unfit: model.norm.weight is [31], model.norm.weight needs [32]") !=
          std::string::npos);
    CHECK(text.find("not of this model: model.layers.9.extra") != std::string::npos);
    CHECK(std::ranges::count(text, '\n') == 3);
    CHECK(import_error(model, folder.path("none")) != "");
  });
}
