#include "registry/parameter_info.h"

#include "registry/component.h"

namespace moelab {
namespace {

class Describer final : public ParamVisitor {
 public:
  std::vector<ParameterInfo> rows;

 protected:
  void boolean(std::string_view key, bool& value, std::string_view doc) override {
    add(key, "boolean", value ? "true" : "false", doc);
  }
  void integer(std::string_view key, std::int64_t& value, std::string_view doc,
               const Rule& rule) override {
    add(key, "integer", std::to_string(value), doc).rule = rule;
  }
  void real(std::string_view key, double& value, std::string_view doc, const Rule& rule) override {
    add(key, "real", toml_real(value), doc).rule = rule;
  }
  void text(std::string_view key, std::string& value, std::string_view doc) override {
    add(key, "string", toml_string(value), doc);
  }
  void choice(std::string_view key, std::size_t& at, std::span<const std::string_view> names,
              std::string_view doc) override {
    add(key, "choice", toml_string(names[at]), doc).choices.assign(names.begin(), names.end());
  }
  void texts(std::string_view key, std::vector<std::string>& value, std::string_view doc) override {
    add(key, "strings", array(value), doc);
  }
  void reals(std::string_view key, std::vector<double>& value, std::string_view doc,
             const Rule& rule) override {
    add(key, "reals", array(value), doc).rule = rule;
  }
  void slot(std::string_view key, Slot& value, std::string_view doc) override {
    const std::string name = value.name().empty() ? "" : toml_string(value.name());
    add(key, "component", name, doc).family = value.family();
  }
  void slots(std::string_view key, NamedSlots& value, std::string_view doc) override {
    add(key, "components by label", "", doc).family = value.family();
  }
  void enter(std::string_view key, std::string_view) override {
    prefixes_.push_back(prefix_);
    prefix_ += str(key, ".");
  }
  void leave() override {
    prefix_ = prefixes_.back();
    prefixes_.pop_back();
  }

 private:
  ParameterInfo& add(std::string_view key, std::string_view type, std::string initial,
                     std::string_view doc) {
    ParameterInfo& row = rows.emplace_back();
    row.key = prefix_ + std::string(key);
    row.type = type;
    row.initial = std::move(initial);
    row.doc = doc;
    return row;
  }
  template <class T>
  static std::string array(const std::vector<T>& values) {
    Node::Array items;
    for (const T& value : values) items.push_back({value, {}, {}});
    return Node{std::move(items), {}, {}}.text();
  }

  std::string prefix_;
  std::vector<std::string> prefixes_;
};

template <class Names>
std::string known(const Names& names, std::string_view wrong) {
  std::string out;
  const std::string nearest = suggest(wrong, names);
  if (!nearest.empty()) out += str("; did you mean '", nearest, "'?");
  out += " (known:";
  for (const auto& name : names) out += str(" ", name);
  return out + ")";
}

}  // namespace

std::string ParameterInfo::range() const {
  if (!family.empty()) return str("see: moelab components ", family);
  if (choices.empty()) return rule.text();
  std::string out = "one of";
  for (const std::string& name : choices) out += str(" ", name);
  return out;
}

std::vector<ParameterInfo> parameters_of(const EntryBase& entry) {
  const std::shared_ptr<void> params = entry.default_params();
  return parameters_of([&](ParamVisitor& v) { entry.describe(params.get(), v); });
}

std::vector<ParameterInfo> parameters_of(const std::function<void(ParamVisitor&)>& describe) {
  Describer describer;
  describe(describer);
  return std::move(describer.rows);
}

const FamilyRegistry& family_named(std::string_view family) {
  const auto at = families().find(family);
  if (at != families().end()) return *at->second;
  std::vector<std::string> names;
  for (const auto& [name, registry] : families()) names.push_back(name);
  throw Error(ExitCode::usage, str("no family is named '", family, "'", known(names, family)));
}

const EntryBase& member_named(std::string_view family, std::string_view name) {
  std::vector<std::string> names;
  for (const EntryBase* entry : family_named(family).members()) {
    if (entry->name == name) return *entry;
    names.push_back(entry->name);
  }
  throw Error(ExitCode::usage, str("no ", family, " is named '", name, "'", known(names, name)));
}

}  // namespace moelab
