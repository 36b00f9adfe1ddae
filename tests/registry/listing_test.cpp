#include "registry/listing.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/registry/toy.h"

using namespace moelab;

namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a component is listed with every parameter's type, default, range and doc") {
  CHECK(list_component("toy_animal", "dog") ==
        "toy_animal dog: barks\n  barks  integer  2  in [1, 9]  how often\n");
  CHECK(has(list_component("toy_animal", "bird"),
            "prey  component  \"dog\"  see: moelab components toy_animal  what it eats"));
  CHECK(list_family("toy_animal") == "toy_animal\n  bird  flies\n  dog   barks\n");
  CHECK(has(list_families(), "toy_animal\n  bird  flies\n"));
  CHECK(has(components_markdown(), "\n## toy_animal\n\n### bird\n\nflies\n"));
  CHECK(has(components_markdown(), "| `barks` | integer | `2` | in [1, 9] | how often |"));
}

TEST_CASE("the listing as data") {
  const auto dog = nlohmann::json::parse(component_json("toy_animal", "dog"));
  CHECK(dog.at("parameters").at(0).at("at_most") == 9);
  CHECK(dog.at("parameters").at(0).at("default") == 2);
  bool found = false;
  for (const auto& item : nlohmann::json::parse(components_json())) found = found || item == dog;
  CHECK(found);
}

TEST_CASE("wrong names of families and members are told the nearest") {
  CHECK_THROWS_WITH_AS(list_component("toy_animal", "dgo"),
                       "no toy_animal is named 'dgo'; did you mean 'dog'? (known: bird dog)",
                       Error);
  CHECK_THROWS_AS(list_family("toy_animul"), Error);
}
