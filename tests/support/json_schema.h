// As much of JSON Schema as the recipe's schema uses; a keyword it does not know fails the test.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

namespace moelab::testing {

class JsonSchema {
 public:
  using Json = nlohmann::ordered_json;
  explicit JsonSchema(const std::string& text) : root_(Json::parse(text)) {}
  const Json& root() const { return root_; }
  bool accepts(const Json& value) const { return accepts(root_, value); }

 private:
  static bool has_type(const Json& value, const std::string& type) {
    return type == "object"    ? value.is_object()
           : type == "array"   ? value.is_array()
           : type == "string"  ? value.is_string()
           : type == "boolean" ? value.is_boolean()
           : type == "integer" ? value.is_number_integer()
                               : type == "number" && value.is_number();
  }

  bool accepts(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [keyword, rule] : schema.items())
      if (!holds(schema, keyword, rule, value)) return false;
    return true;
  }

  bool holds(const Json& schema, const std::string& keyword, const Json& rule,
             const Json& value) const {
    static const std::set<std::string> words{"$schema", "title", "description",
                                             "default", "$defs", "additionalProperties"};
    if (keyword == "$ref")
      return accepts(root_.at(Json::json_pointer(rule.get<std::string>().substr(1))), value);
    if (keyword == "type") return has_type(value, rule);
    if (keyword == "const") return value == rule;
    if (keyword == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end();
    if (keyword == "anyOf")
      return std::any_of(rule.begin(), rule.end(),
                         [&](const Json& one) { return accepts(one, value); });
    if (keyword == "minimum") return !value.is_number() || value >= rule;
    if (keyword == "maximum") return !value.is_number() || value <= rule;
    if (keyword == "exclusiveMinimum") return !value.is_number() || value > rule;
    if (keyword == "exclusiveMaximum") return !value.is_number() || value < rule;
    if (keyword == "items")
      return !value.is_array() || std::all_of(value.begin(), value.end(), [&](const Json& item) {
        return accepts(rule, item);
      });
    if (keyword == "propertyNames") return names_hold(rule, value);
    if (keyword == "properties") return properties_hold(schema, value);
    CHECK_MESSAGE(words.contains(keyword), keyword);
    if (keyword == "additionalProperties" && !schema.contains("properties"))
      return properties_hold(schema, value);
    return true;
  }

  static bool names_hold(const Json& rule, const Json& value) {
    if (!value.is_object()) return true;
    const std::regex pattern(rule.at("pattern").get<std::string>());
    for (const auto& [name, item] : value.items())
      if (!std::regex_search(name, pattern)) return false;
    return true;
  }

  bool properties_hold(const Json& schema, const Json& value) const {
    if (!value.is_object()) return true;
    const Json known = schema.value("properties", Json::object());
    const Json others = schema.value("additionalProperties", Json(true));
    for (const auto& [name, item] : value.items())
      if (!accepts(known.contains(name) ? known.at(name) : others, item)) return false;
    return true;
  }

  Json root_;
};

}  // namespace moelab::testing
