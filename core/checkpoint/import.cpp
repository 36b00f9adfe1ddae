// E experts, F width, H hidden.
#include "core/checkpoint/import.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "core/checkpoint/json.h"
#include "core/checkpoint/safetensors.h"
#include "registry/error.h"

namespace moelab {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> weight_files(const std::string& path) {
  constexpr auto kIndexEnding = ".index.json";
  const auto shards_of = [](const fs::path& index) {
    std::set<std::string> files;
    for (const auto& [tensor, file] : parse_weight_map(read_text(index.string())))
      files.insert((index.parent_path() / file).string());
    return std::vector<std::string>(files.begin(), files.end());
  };
  if (path.ends_with(kIndexEnding)) return shards_of(path);
  if (!fs::is_directory(path)) return {path};
  const fs::path index = fs::path(path) / "model.safetensors.index.json";
  if (fs::exists(index)) return shards_of(index);
  const fs::path whole = fs::path(path) / "model.safetensors";
  if (fs::exists(whole)) return {whole.string()};
  throw Error(ExitCode::checkpoint,
              str("--init ", path, ": the folder holds neither model.safetensors nor ",
                  "model.safetensors.index.json; name the folder or file of the weights"));
}

// Where a piece may stand: a whole tensor, or a part of one that holds all experts.
struct Place {
  std::string tensor;
  std::optional<Index> expert;  // set: element `expert` of the first axis
  Index block = 0, blocks = 1;  // of `blocks` equal ones stacked along the second axis
};

std::vector<Place> places(const std::string& piece) {
  std::vector<Place> out{{piece, {}}};
  constexpr std::string_view kExperts = ".mlp.experts.", kRouter = ".mlp.gate.weight";
  if (const std::size_t at = piece.find(kExperts); at != std::string::npos) {
    const std::string layer = piece.substr(0, at), rest = piece.substr(at + kExperts.size());
    const std::string id = rest.substr(0, rest.find('.')), part = rest.substr(id.size());
    const auto place = [&](const char* mixtral, const char* fused, Index block, Index blocks) {
      out.push_back({str(layer, ".block_sparse_moe.experts.", id, ".", mixtral, ".weight"), {}});
      out.push_back({str(layer, ".mlp.experts.", fused), std::stoll(id), block, blocks});
    };
    if (part == ".gate_proj.weight") place("w1", "gate_up_proj", 0, 2);
    if (part == ".up_proj.weight") place("w3", "gate_up_proj", 1, 2);
    if (part == ".down_proj.weight") place("w2", "down_proj", 0, 1);
  } else if (piece.ends_with(kRouter)) {
    out.push_back(
        {piece.substr(0, piece.size() - kRouter.size()) + ".block_sparse_moe.gate.weight", {}});
  }
  return out;
}

// The expert's number becomes '*': a rank knows the names of its own experts only.
std::string any_expert(const std::string& tensor) {
  constexpr std::string_view kExperts = ".experts.";
  const std::size_t at = tensor.find(kExperts);
  if (at == std::string::npos) return tensor;
  const std::size_t begin = at + kExperts.size();
  const std::size_t end = tensor.find_first_not_of("0123456789", begin);
  if (end == begin || end == std::string::npos) return tensor;
  return tensor.substr(0, begin) + "*" + tensor.substr(end);
}

std::string shape_text(const std::vector<Index>& shape) {
  std::string out = "[";
  for (const Index n : shape) out += str(out.size() > 1 ? ", " : "", n);
  return out + "]";
}

class Import {
 public:
  explicit Import(const std::string& path) : path_(path) {
    for (const std::string& file : weight_files(path)) files_.emplace_back(file);
  }

  void take(const Piece& piece) {
    for (const Place& place : places(piece.name)) {
      known_.insert(any_expert(place.tensor));
      const auto file = std::ranges::find_if(
          files_, [&](const SafetensorsReader& reader) { return reader.has(place.tensor); });
      if (file == files_.end()) continue;
      read(piece, place, *file);
      return;
    }
    problems_.push_back("missing: " + piece.name);
  }

  void finish(bool tied) {
    for (const SafetensorsReader& file : files_)
      for (const auto& [name, entry] : file.entries())
        if (!known_.contains(any_expert(name)) && !(tied && name == "lm_head.weight") &&
            !name.ends_with(".rotary_emb.inv_freq"))
          problems_.push_back("not of this model: " + name);
    if (problems_.empty()) return;
    constexpr std::size_t kShown = 20;
    std::string text = str("--init ", path_, ": the weights do not fit the model");
    for (std::size_t i = 0; i < std::min(kShown, problems_.size()); ++i)
      text += "\n  " + problems_[i];
    if (problems_.size() > kShown) text += str("\n  and ", problems_.size() - kShown, " more");
    throw Error(ExitCode::checkpoint, text);
  }

 private:
  void read(const Piece& piece, const Place& place, const SafetensorsReader& file) {
    const std::vector<Index>& found = file.entries().at(place.tensor).shape;
    std::vector<Index> wanted;
    for (int axis = 0; axis < piece.value.rank(); ++axis) wanted.push_back(piece.value.size(axis));
    if (place.expert) {
      wanted[0] *= place.blocks;
      const Index experts = found.empty() ? 0 : found[0];
      wanted.insert(wanted.begin(), std::max(experts, *place.expert + 1));
    }
    if (found != wanted) {
      problems_.push_back(str("unfit: ", place.tensor, " is ", shape_text(found), ", ", piece.name,
                              " needs ", shape_text(wanted)));
      return;
    }
    const Index first =
        place.expert ? (*place.expert * place.blocks + place.block) * piece.value.numel() : 0;
    file.read_elements(place.tensor, first, piece.value);
  }

  std::string path_;
  std::vector<SafetensorsReader> files_;
  std::set<std::string> known_;
  std::vector<std::string> problems_;
};

}  // namespace

void import_weights(Module& model, const std::string& path) {
  Import import(path);
  bool tied = true;
  model.parameters([&](Parameter& parameter) {
    for (const Piece& piece : parameter.pieces) {
      tied = tied && piece.name != "lm_head.weight";
      import.take(piece);
    }
  });
  import.finish(tied);
}

}  // namespace moelab
