#include "core/train/resume.h"

#include <map>
#include <ostream>

#include "core/optim/name_rules.h"
#include "registry/error.h"

namespace moelab {
namespace {

// First match counts; what matches nothing may change.
struct Verdict {
  const char* pattern;
  const char* reason;  // null: may change
};
constexpr const char* kShape = "the saved weights have another shape or meaning";
constexpr Verdict kVerdicts[] = {
    {"run.seed", "the draws would differ from those made so far"},
    {"run.dtype", "the saved weights and optimizer state are of the other dtype"},
    {"model.seed", "the draws would differ from those made so far"},
    {"model.recompute", nullptr},
    {"model.dropout", nullptr},
    {"model.*", kShape},
    {"ffn.*.dispatcher*", nullptr},
    {"ffn.*.balancers*", nullptr},
    {"ffn.*.dropper*", nullptr},
    {"ffn.*.experts.type", nullptr},
    {"ffn.*", kShape},
    {"data.dataset.path", nullptr},  // the text's fingerprint tells whether it is another text
    {"data.dataset.heldout_stride", nullptr},
    {"data.*", "the steps to come would see other text"},
    {"train.batch", "the steps to come would see other text"},
    {"optimizer.type", "the saved optimizer state is of the other type"},
};

void flatten(const Node& node, const std::string& path, std::map<std::string, std::string>& out) {
  const Node::Table* table = node.table();
  if (!table) {
    out[path] = node.text();
    return;
  }
  for (const auto& [key, value] : *table)
    flatten(value, path.empty() ? key : str(path, ".", key), out);
}

std::map<std::string, std::string> values_of(const std::string& recipe) {
  Report report;
  std::map<std::string, std::string> out;
  flatten(parse_recipe(recipe, "recipe", Source::Origin::recipe, report), "", out);
  return out;
}

std::string reason_for(const std::string& path) {
  for (const Verdict& verdict : kVerdicts)
    if (glob_matches(verdict.pattern, path)) return verdict.reason ? verdict.reason : "";
  return {};
}

}  // namespace

std::vector<RecipeChange> compare_recipes(const std::string& before, const std::string& after) {
  auto old_values = values_of(before), new_values = values_of(after);
  std::vector<RecipeChange> changes;
  for (const auto& [path, value] : old_values)
    if (new_values[path] != value)
      changes.push_back({path, value, new_values[path], reason_for(path)});
  for (const auto& [path, value] : new_values)
    if (!old_values.contains(path)) changes.push_back({path, "", value, reason_for(path)});
  return changes;
}

void check_resume(const Checkpoint& checkpoint, const std::string& recipe,
                  std::uint64_t data_fingerprint, std::ostream& log) {
  std::string refused;
  const auto shown = [](const std::string& value) { return value.empty() ? "(none)" : value; };
  for (const RecipeChange& change : compare_recipes(checkpoint.meta.recipe, recipe)) {
    const std::string line =
        str("  ", change.path, ": ", shown(change.before), " -> ", shown(change.after));
    if (change.reason.empty())
      log << "changed since the checkpoint:" << line << "\n";
    else
      refused += str("\n", line, ": ", change.reason);
  }
  if (!refused.empty())
    throw Error(ExitCode::checkpoint,
                str("cannot resume from ", checkpoint.path, " with this recipe:", refused,
                    "\nundo these changes, or start a new run in another --out"));
  if (checkpoint.meta.data_fingerprint != data_fingerprint)
    throw Error(ExitCode::checkpoint,
                str("cannot resume from ", checkpoint.path,
                    ": the text of [data] is not the one it was trained on; restore the files, or "
                    "start a new run in another --out"));
}

}  // namespace moelab
