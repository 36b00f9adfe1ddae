// The JSON Schema accepts what the reader accepts, and refuses what it refuses.
#include "registry/schema.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "core/train/recipe_page.h"
#include "test_paths.h"
#include "tests/registry/toy.h"
#include "tests/support/json_schema.h"

using namespace moelab;
using moelab::testing::JsonSchema;
using Json = JsonSchema::Json;

namespace {

struct ToJson {
  Json operator()(const Node::Array& items) const {
    Json out = Json::array();
    for (const Node& item : items) out.push_back(std::visit(ToJson{}, item.value));
    return out;
  }
  Json operator()(const Node::Table& table) const {
    Json out = Json::object();
    for (const auto& [key, item] : table) out[key] = std::visit(ToJson{}, item.value);
    return out;
  }
  Json operator()(const auto& scalar) const { return scalar; }
};

Json json_of(const std::string& toml) {
  Report report;
  const Node root = parse_recipe(toml, "recipe.toml", Source::Origin::recipe, report);
  REQUIRE_MESSAGE(!report.has_errors(), report.lines());
  return std::visit(ToJson{}, root.value);
}

JsonSchema zoo_schema() {
  toy::Zoo zoo;
  return JsonSchema(
      schema_json([&](ParamVisitor& v) { v.section("zoo", zoo, "the zoo"); }, "a zoo"));
}

}  // namespace

TEST_CASE("the schema tells every parameter's type, default, range and doc") {
  const JsonSchema schema = zoo_schema();
  const Json& zoo = schema.root().at("properties").at("zoo").at("properties");
  CHECK(zoo.at("size") == Json::parse(R"({"description": "cages", "type": "integer", "default": 3,
                                          "minimum": 1, "maximum": 100})"));
  CHECK(zoo.at("ratio").at("exclusiveMaximum") == 1);
  CHECK(zoo.at("prices").at("items").at("exclusiveMinimum") == 0);
  CHECK(zoo.at("colour").at("enum") == Json::parse(R"(["red", "green"])"));
  CHECK(zoo.at("pet").at("default") == "dog");
  CHECK(zoo.at("inner").at("properties").at("depth").at("minimum") == 1);
  const Json& dog = schema.root().at("$defs").at("toy_animal.dog");
  CHECK(dog.at("properties").at("type").at("const") == "dog");
  CHECK(dog.at("properties").at("barks").at("description") == "how often");
}

TEST_CASE("the schema accepts and refuses what the reader does") {
  const JsonSchema schema = zoo_schema();
  for (const char* good :
       {"", "base = 'other.toml'", "[zoo]\nopen = false\nratio = 0\nguests = []\nprices = [1, 2.5]",
        "zoo.pet = 'bird'", "[zoo.pet]\ntype = 'bird'\nprey = { type = 'dog', barks = 9 }",
        "zoo.pet.barks = 3", "[zoo.animals]\nrex = { type = 'dog', barks = 1 }\ndog = 'bird'"}) {
    Report report;
    if (!std::string(good).starts_with("base")) toy::read_zoo(good, report);
    CHECK_MESSAGE(report.lines() == "", good);
    CHECK_MESSAGE(schema.accepts(json_of(good)), good);
  }
  for (const char* bad :
       {"zooo = 1", "zoo.sise = 3", "zoo.size = 0", "zoo.size = 1.5", "zoo.size = '3'",
        "zoo.ratio = 1.0", "zoo.colour = 'blue'", "zoo.guests = [1]", "zoo.prices = [0]",
        "zoo.pet = 'cat'", "zoo.pet = 3", "zoo.pet = { type = 'dog', barks = 10 }",
        "zoo.pet = { type = 'dog', prey = 'dog' }", "zoo.animals = { 'a b' = 'dog' }",
        "zoo.animals.rex.bark = 1", "zoo.inner = 3"}) {
    Report report;
    toy::read_zoo(bad, report);
    CHECK_MESSAGE(report.has_errors(), bad);
    CHECK_MESSAGE(!schema.accepts(json_of(bad)), bad);
  }
}

TEST_CASE("the schema of recipes accepts every recipe of ours, and no wrong key in any table") {
  const JsonSchema schema(recipe_schema());
  int recipes = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(MOELAB_SOURCE_DIR "/recipes")) {
    if (entry.path().extension() != ".toml") continue;
    ++recipes;
    CAPTURE(entry.path().string());
    Report report;
    const Json recipe = std::visit(ToJson{}, load_recipe(entry.path().string(), {}, report).value);
    REQUIRE(!report.has_errors());
    CHECK(schema.accepts(recipe));
    for (const auto& [table, keys] : recipe.items()) {
      if (!keys.is_object()) continue;
      Json wrong = recipe;
      wrong[table]["no_such_key"] = 1;
      CHECK_MESSAGE(!schema.accepts(wrong), table);
    }
  }
  CHECK(recipes > 0);
}
