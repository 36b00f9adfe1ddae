#include "core/checkpoint/store.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <ostream>
#include <sstream>

#include "core/checkpoint/file_io.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/safetensors.h"
#include "core/comm/gather_texts.h"
#include "registry/error.h"

namespace moelab {
namespace {

namespace fs = std::filesystem;
constexpr const char* kStepPrefix = "step-";
constexpr const char* kAside = ".writing";  // the folder that becomes step-<N>
constexpr const char* kReplaced = ".replaced";

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::checkpoint, str("checkpoint ", path, ": ", reason));
}

template <class T>
T number(const StringTable& table, const char* key, const std::string& path) {
  const auto at = table.find(key);
  T value{};
  if (at == table.end()) refuse(path, str("has no '", key, "'"));
  const char* end = at->second.data() + at->second.size();
  if (std::from_chars(at->second.data(), end, value).ptr != end)
    refuse(path, str(key, " = '", at->second, "' is not a number"));
  return value;
}

StringTable table_of(const CheckpointMeta& meta) {
  return {{"step", str(meta.step)},
          {"tokens", str(meta.tokens)},
          {"updates", str(meta.updates)},
          {"loss", exact(meta.loss)},
          {"seconds", exact(meta.seconds)},
          {"model_seed", str(meta.model_seed)},
          {"data_seed", str(meta.data_seed)},
          {"data_fingerprint", str(meta.data_fingerprint)},
          {"recipe", meta.recipe},
          {"version", meta.version}};
}

CheckpointMeta meta_of(const StringTable& table, const std::string& path) {
  CheckpointMeta meta;
  meta.step = number<Index>(table, "step", path);
  meta.tokens = number<Index>(table, "tokens", path);
  meta.updates = number<Index>(table, "updates", path);
  meta.loss = number<double>(table, "loss", path);
  meta.seconds = number<double>(table, "seconds", path);
  meta.model_seed = number<std::uint64_t>(table, "model_seed", path);
  meta.data_seed = number<std::uint64_t>(table, "data_seed", path);
  meta.data_fingerprint = number<std::uint64_t>(table, "data_fingerprint", path);
  meta.recipe = table.contains("recipe") ? table.at("recipe") : "";
  meta.version = table.contains("version") ? table.at("version") : "";
  return meta;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// Writes one file where `writes` holds (rank 0), and brings the experts there. Returns its hash.
std::string write_file(const std::string& path, const Shares& shares, bool writes,
                       const Backend& backend, Group* expert_group) {
  std::string own;
  for (const Piece& piece : shares.sharded) own += piece.name + "\n";
  std::vector<std::vector<std::string>> names;  // by rank of the expert group
  for (const std::string& text : gather_texts(backend, expert_group, own))
    names.push_back(lines(text));

  std::vector<SafetensorsWriter::Item> items;
  const auto item = [](const std::string& name, const Tensor& value) {
    return SafetensorsWriter::Item{name, value.dtype(), value.shape()};
  };
  for (const Piece& piece : shares.whole) items.push_back(item(piece.name, piece.value));
  for (std::size_t i = 0; i < shares.sharded.size(); ++i)
    for (const auto& of_rank : names) items.push_back(item(of_rank.at(i), shares.sharded[i].value));

  std::unique_ptr<SafetensorsWriter> writer;
  if (writes) writer = std::make_unique<SafetensorsWriter>(path, items);
  if (writer)
    for (const Piece& piece : shares.whole) writer->add(piece.name, piece.value);
  const auto ranks = static_cast<Index>(names.size());
  for (std::size_t i = 0; i < shares.sharded.size(); ++i) {
    const Tensor& value = shares.sharded[i].value;
    Tensor all = value.view({1, value.numel()});
    if (ranks > 1) {
      all = backend.empty(value.dtype(), {ranks, value.numel()});
      expert_group->all_gather(value, all).wait();
    }
    for (Index r = 0; writer && r < ranks; ++r)
      writer->add(names[static_cast<std::size_t>(r)][i], all.rows(r, 1).view(value.shape()));
  }
  return writer ? writer->finish() : std::string{};
}

}  // namespace

Checkpoint open_checkpoint(const std::string& path) {
  StringTable table;
  try {
    table = parse_string_table(read_text(path + "/" + kMetaFile));
  } catch (const Error& problem) {
    refuse(path, str(kMetaFile, ": ", problem.what()));
  }
  const std::string own_hash = table["hash"];
  table.erase("hash");
  if (hash_text(string_table_text(table)) != own_hash)
    refuse(path, str(kMetaFile, " is damaged: its hash is not the one written"));
  for (const char* name : {kModelFile, kOptimizerFile, kStateFile}) {
    const auto hash = table.find(str("hash/", name));
    if (hash == table.end() || hash_file(path + "/" + name) != hash->second)
      refuse(path, str(name, " is missing or damaged: its hash is not the one written"));
  }
  return {path, meta_of(table, path)};
}

void load_pieces(const std::string& file, const std::vector<Piece>& pieces) {
  const SafetensorsReader reader(file);
  for (const Piece& piece : pieces) reader.read(piece.name, piece.value);
}

CheckpointStore::CheckpointStore(std::string folder, Index keep)
    : folder_(std::move(folder)), keep_(keep) {}

std::string CheckpointStore::path(Index step) const { return str(folder_, "/", kStepPrefix, step); }

std::vector<Index> CheckpointStore::steps() const {
  std::vector<Index> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kStepPrefix)) continue;
    Index step = 0;
    const char* end = name.data() + name.size();
    const char* digits = name.data() + std::string_view(kStepPrefix).size();
    if (digits != end && std::from_chars(digits, end, step).ptr == end) found.push_back(step);
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

std::optional<Checkpoint> CheckpointStore::newest_whole(std::ostream& warnings) const {
  for (const Index step : steps()) {
    try {
      return open_checkpoint(path(step));
    } catch (const Error& problem) {
      warnings << "warning: " << problem.what() << "; trying the checkpoint before it\n";
    }
  }
  return {};
}

void CheckpointStore::discard_after(Index step) const {
  for (const Index found : steps())
    if (found > step) fs::remove_all(path(found));
}

void CheckpointStore::save(const CheckpointMeta& meta, const std::map<std::string, Shares>& files,
                           const Backend& backend, Group& everyone, Group* expert_group) const {
  const bool writes = everyone.rank() == 0;
  const std::string aside = folder_ + "/" + kAside;
  StringTable table = table_of(meta);
  try {
    if (writes) {
      fs::remove_all(aside);
      fs::create_directories(aside);
    }
    for (const auto& [name, shares] : files)
      table[str("hash/", name)] =
          write_file((fs::path(aside) / name).string(), shares, writes, backend, expert_group);
    if (writes) {
      table["hash"] = hash_text(string_table_text(table));
      DurableFile file(aside + "/" + kMetaFile);
      file.write(string_table_text(table));
      file.finish();
      commit(aside, meta.step);
      prune();
    }
  } catch (const fs::filesystem_error& problem) {
    throw Error(ExitCode::resources, str("checkpoint ", path(meta.step), ": ", problem.what()));
  } catch (const Error&) {
    std::error_code ignored;
    if (writes) fs::remove_all(aside, ignored);
    throw;
  }
  everyone.barrier();
}

void CheckpointStore::commit(const std::string& written, Index step) const {
  sync_folder(written);
  const std::string target = path(step), replaced = folder_ + "/" + kReplaced;
  fs::remove_all(replaced);
  if (fs::exists(target)) fs::rename(target, replaced);  // an earlier or damaged one of this step
  fs::rename(written, target);
  sync_folder(folder_);
  fs::remove_all(replaced);
}

void CheckpointStore::prune() const {
  const std::vector<Index> found = steps();
  for (std::size_t i = static_cast<std::size_t>(keep_); i < found.size(); ++i)
    fs::remove_all(path(found[i]));
}

}  // namespace moelab
