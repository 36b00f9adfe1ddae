#include "registry/schema.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "registry/component.h"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

Json number_of(double value) {  // 1, not 1.0
  constexpr double kPlain = 1e15;
  if (value == std::floor(value) && std::fabs(value) < kPlain)
    return static_cast<std::int64_t>(value);
  return value;
}

void add_rule(Json& schema, const Rule& rule) {
  if (rule.least) schema[rule.open_least ? "exclusiveMinimum" : "minimum"] = number_of(*rule.least);
  if (rule.most) schema[rule.open_most ? "exclusiveMaximum" : "maximum"] = number_of(*rule.most);
}

class Schema final : public ParamVisitor {
 public:
  // Of the properties that `describe` visits: a closed table.
  Json table(const std::function<void(ParamVisitor&)>& describe, std::string_view doc) {
    open_.push_back(Json::object());
    describe(*this);
    return closed(doc);
  }
  const std::map<std::string, Json>& definitions() const { return definitions_; }

 protected:
  void boolean(std::string_view key, bool& value, std::string_view doc) override {
    add(key, doc, {{"type", "boolean"}, {"default", value}});
  }
  void integer(std::string_view key, std::int64_t& value, std::string_view doc,
               const Rule& rule) override {
    Json schema{{"type", "integer"}, {"default", value}};
    add_rule(schema, rule);
    add(key, doc, schema);
  }
  void real(std::string_view key, double& value, std::string_view doc, const Rule& rule) override {
    Json schema{{"type", "number"}, {"default", number_of(value)}};
    add_rule(schema, rule);
    add(key, doc, schema);
  }
  void text(std::string_view key, std::string& value, std::string_view doc) override {
    add(key, doc, {{"type", "string"}, {"default", value}});
  }
  void choice(std::string_view key, std::size_t& at, std::span<const std::string_view> names,
              std::string_view doc) override {
    add(key, doc, {{"enum", names}, {"default", names[at]}});
  }
  void texts(std::string_view key, std::vector<std::string>& value, std::string_view doc) override {
    add(key, doc, {{"type", "array"}, {"items", {{"type", "string"}}}, {"default", value}});
  }
  void reals(std::string_view key, std::vector<double>& value, std::string_view doc,
             const Rule& rule) override {
    Json item{{"type", "number"}};
    add_rule(item, rule);
    add(key, doc, {{"type", "array"}, {"items", item}, {"default", value}});
  }
  void slot(std::string_view key, Slot& value, std::string_view doc) override {
    Json schema{{"anyOf", Json::array({reference(value)})}};
    if (!value.name().empty()) schema["default"] = value.name();
    add(key, doc, schema);
  }
  void slots(std::string_view key, NamedSlots& value, std::string_view doc) override {
    add(key, doc,
        {{"type", "object"},
         {"propertyNames", {{"pattern", "^[A-Za-z0-9_-]+$"}}},
         {"additionalProperties", reference(value.add("label"))}});
  }
  void enter(std::string_view key, std::string_view doc) override {
    open_.push_back(Json::object());
    entered_.emplace_back(key, doc);
  }
  void leave() override {
    const auto [key, doc] = entered_.back();
    entered_.pop_back();
    Json schema = closed(doc);
    open_.back()[key] = std::move(schema);
  }

 private:
  void add(std::string_view key, std::string_view doc, const Json& schema) {
    Json described{{"description", doc}};
    described.update(schema);
    open_.back()[std::string(key)] = std::move(described);
  }

  Json closed(std::string_view doc) {
    Json schema{{"description", doc},
                {"type", "object"},
                {"properties", std::move(open_.back())},
                {"additionalProperties", false}};
    open_.pop_back();
    return schema;
  }

  // To the definition of the slot's family: a member's name, or a table of one of them.
  Json reference(const Slot& slot) {
    const std::string family(slot.family());
    Json to{{"$ref", "#/$defs/" + family}};
    if (!definitions_.try_emplace(family).second) return to;
    Json names = Json::array(), any = Json::array({nullptr});
    for (const EntryBase* entry : slot.known()) {
      const std::string member = str(family, ".", entry->name);
      names.push_back(entry->name);
      any.push_back({{"$ref", "#/$defs/" + member}});
      const std::shared_ptr<void> params = entry->default_params();
      definitions_[member] = table(
          [&](ParamVisitor& v) {
            add(slot.selector(), entry->summary, {{"const", entry->name}});
            entry->describe(params.get(), v);
          },
          entry->summary);
    }
    any[0] = {{"enum", names}};
    definitions_[family] = {{"anyOf", any}};
    return to;
  }

  std::vector<Json> open_;  // properties of the tables being visited, the innermost last
  std::vector<std::pair<std::string, std::string>> entered_;  // key and doc of nested ones
  std::map<std::string, Json> definitions_;
};

}  // namespace

std::string schema_json(const std::function<void(ParamVisitor&)>& describe,
                        std::string_view title) {
  Schema schema;
  Json out{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  Json root = schema.table(describe, "generated from the registered components");
  root["properties"]["base"] = {{"description", "a recipe to start from, relative to this file"},
                                {"type", "string"}};
  out.update(root);
  for (const auto& [name, definition] : schema.definitions()) out["$defs"][name] = definition;
  return out.dump(1) + "\n";
}

}  // namespace moelab
