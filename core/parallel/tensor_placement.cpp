// Where a parameter lives, from its name alone.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/parallel/rank_grid.h"
#include "registry/error.h"
#include "registry/text.h"

namespace moelab {
namespace {

// The number after `key` in a name: of ".layers." in "model.layers.3.mlp" 3.
std::optional<std::int64_t> number_after(const std::string& name, std::string_view key) {
  const std::size_t at = name.find(key);
  if (at == std::string::npos) return {};
  std::int64_t value = 0;
  const char* begin = name.data() + at + key.size();
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), value);
  if (error != std::errc() || value < 0) return {};
  return value;
}

// Weights that tensor parallelism cuts, by rows or by columns; the rest is whole on every rank.
bool is_cut(const std::string& name) {
  constexpr std::array<std::string_view, 10> kCut{
      "q_proj",  "k_proj",    "v_proj",       "o_proj",       "gate_proj",
      "up_proj", "down_proj", "gate_up_proj", "embed_tokens", "lm_head"};
  for (const std::string_view part : kCut)
    if (name.find(str(".", part)) != std::string::npos || name.starts_with(part)) return true;
  return false;
}

// Names that no checkpoint of ours has get no answer. What a block holds beside its known parts is
// up to its components, so that only misspelt projections are told apart.
void require_known(const std::string& name) {
  constexpr std::array<std::string_view, 3> kOutside{"model.embed_tokens.weight",
                                                     "model.norm.weight", "lm_head.weight"};
  constexpr std::array<std::string_view, 4> kParts{".self_attn.", ".mlp.", ".input_layernorm.",
                                                   ".post_attention_layernorm."};
  const bool inside = name.starts_with("model.layers.") && number_after(name, ".layers.");
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  const bool known = inside ? std::any_of(kParts.begin(), kParts.end(), has) &&
                                  (!has("_proj") || is_cut(name)) &&
                                  (!has(".experts.") || number_after(name, ".experts."))
                            : std::find(kOutside.begin(), kOutside.end(), name) != kOutside.end();
  if (!known)
    throw Error(ExitCode::usage,
                str("--tensor '", name,
                    "' is no name of a checkpoint's; names are model.embed_tokens.weight, "
                    "model.norm.weight, lm_head.weight, and model.layers.N.… such as "
                    "model.layers.0.self_attn.q_proj.weight or "
                    "model.layers.0.mlp.experts.0.up_proj.weight"));
}

// Blocks in order, as many a stage; embedding at the beginning, final norm and head at the end.
std::int64_t stage_of(const std::string& name, std::int64_t layers, std::int64_t stages) {
  const auto layer = number_after(name, ".layers.");
  if (!layer) return name.find("embed_tokens") != std::string::npos ? 0 : stages - 1;
  if (*layer >= layers)
    throw Error(ExitCode::usage, str("--tensor '", name, "' is of layer ", *layer,
                                     ", but there are ", layers, "; see --layers"));
  if (layers % stages != 0)
    throw Error(ExitCode::usage, str("--layers ", layers, " must be divisible by --pp ", stages));
  return *layer / (layers / stages);
}

}  // namespace

TensorPlacement place_tensor(const RankLayout& layout, const std::string& name, std::int64_t layers,
                             std::int64_t experts) {
  require_known(name);
  TensorPlacement place;
  const auto expert = number_after(name, ".experts.");
  place.expert = expert.has_value();
  const RankGrid& grid = place.expert ? layout.expert() : layout.dense();
  place.stage = stage_of(name, layers, grid.size("pp"));
  if (is_cut(name) && grid.size("tp") > 1) place.cut = place.expert ? "etp" : "tp";
  if (expert) {
    const std::int64_t ep = grid.size("ep");
    if (*expert >= experts)
      throw Error(ExitCode::usage, str("--tensor '", name, "' is of expert ", *expert,
                                       ", but there are ", experts, "; see --experts"));
    if (experts % ep != 0)
      throw Error(ExitCode::usage, str("--experts ", experts, " must be divisible by --ep ", ep));
    place.expert_owner = *expert / (experts / ep);
  }
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank)
    if (grid.coordinate("pp", rank) == place.stage &&
        (!expert || grid.coordinate("ep", rank) == place.expert_owner))
      place.ranks.push_back(static_cast<int>(rank));
  return place;
}

}  // namespace moelab
