#include <doctest/doctest.h>

#include "tests/registry/toy.h"

using namespace moelab;
using namespace moelab::toy;

TEST_CASE("every kind of parameter is read") {
  Report report;
  const Zoo zoo = read_zoo(R"([zoo]
open = false
size = 7
ratio = 0
name = "n"
colour = "red"
guests = ["x"]
prices = [1, 0.25]
pet = "bird"
[zoo.animals.rex]
type = "dog"
barks = 4
[zoo.animals.dog]
[zoo.inner]
depth = 2
)",
                           report);
  CHECK(lines(report) == "");
  CHECK_FALSE(zoo.open);
  CHECK(zoo.size == 7);
  CHECK(zoo.ratio == 0.0);
  CHECK(zoo.name == "n");
  CHECK(zoo.colour == Colour::red);
  CHECK(zoo.guests == std::vector<std::string>{"x"});
  CHECK(zoo.prices == std::vector<double>{1.0, 0.25});
  CHECK(zoo.pet.name() == "bird");
  CHECK(zoo.pet.make({})->legs() == 2);
  REQUIRE(zoo.animals.items().size() == 2);
  CHECK(zoo.animals.items().at("dog").name() == "dog");  // the label is the type if none is given
  CHECK(zoo.animals.items().at("rex").formula() == "barks 4 times");
  CHECK(zoo.animals.items().at("rex").path() == "zoo.animals.rex");
  CHECK(zoo.inner.depth == 2);
}

TEST_CASE("all mistakes are reported at once, with place, rule and the nearest name") {
  Report report;
  read_zoo(R"([zoo]
open = "yes"
size = 0
ratio = 1.0
sise = 3
colour = "gren"
guests = [1]
prices = [0.0]
inner = 3
[zoo.pet]
type = "dgo"
[zoo.animals.rex]
type = "dog"
barks = 10
bark = 1
[zoo.animals."a b"]
type = "dog"
[zooo]
)",
           report);
  CHECK(lines(report) ==
        R"(zoo.toml:2:8: error: zoo.open = "yes" must be true or false, not a string
zoo.toml:3:8: error: zoo.size = 0 must be in [1, 100]
zoo.toml:4:9: error: zoo.ratio = 1.0 must be in [0, 1)
zoo.toml:6:10: error: zoo.colour = "gren" is not one of red green; did you mean 'green'?
zoo.toml:7:11: error: zoo.guests = 1 must be an array of strings, not an integer
zoo.toml:8:11: error: zoo.prices = 0.0 must be greater than 0
zoo.toml:11:8: error: zoo.pet.type = "dgo" names no toy_animal; did you mean 'dog'? (known: bird dog)
zoo.toml:16:14: error: the label "a b" in 'zoo.animals' may hold only letters, digits, '_' and '-'
zoo.toml:14:9: error: zoo.animals.rex.barks = 10 must be in [1, 9]
zoo.toml:15:1: error: unknown key 'zoo.animals.rex.bark'; did you mean 'barks'? (known: type barks)
zoo.toml:9:9: error: zoo.inner = 3 must be a table, not an integer
zoo.toml:5:1: error: unknown key 'zoo.sise'; did you mean 'size'? (known: open size ratio name colour guests prices pet animals inner)
zoo.toml:18:2: error: unknown key 'zooo'; did you mean 'zoo'? (known: zoo)
)");
}

TEST_CASE("an integer serves as a real, a real never as an integer") {
  Report report;
  const Zoo zoo = read_zoo("[zoo]\nratio = 0\nsize = 2.0\n", report);
  CHECK(zoo.ratio == 0.0);
  CHECK(lines(report) ==
        "zoo.toml:3:8: error: zoo.size = 2.0 must be an integer, not a real number\n");
  CHECK(report.value_of("zoo.ratio") == "0.0");
}

TEST_CASE("infinities and NaN are no numbers for a recipe") {
  Report report;
  read_zoo("[zoo]\nratio = nan\nprices = [inf]\n", report);
  CHECK(report.problems().size() == 2);
}

TEST_CASE("checks name the value and stay silent where it is already wrong") {
  Report report;
  const Zoo zoo = read_zoo("[zoo.pet]\nbarks = 3\n[zoo.animals.dog]\nbarks = 77\n", report);
  zoo.pet.check({2}, report);
  zoo.animals.items().at("dog").check({1}, report);
  CHECK(lines(report) ==
        "zoo.toml:4:9: error: zoo.animals.dog.barks = 77 must be in [1, 9]\n"
        "zoo.toml:2:9: error: zoo.pet.barks = 3 is more than its 2 legs\n");
}

TEST_CASE("defaults take the place of the nearest table that was given") {
  Report report;
  const Zoo zoo = read_zoo("\n[zoo.pet]\n", report);
  zoo.pet.check({1}, report);
  CHECK(lines(report) == "zoo.toml:2:1: error: zoo.pet.barks = 2 is more than its 1 legs\n");
  CHECK(report.source_of("zoo.pet.barks").origin == Source::Origin::fallback);
  CHECK(report.source_of("zoo.inner").place() == "zoo.toml:2:1");
}

TEST_CASE("the resolved recipe reads back to the same values") {
  Report report;
  read_zoo(
      "zoo.ratio = 0.1\nzoo.prices = [1e300, 3, 0.1]\nzoo.pet = 'bird'\n"
      "zoo.animals.rex.type = 'dog'\nzoo.guests = ['tab\\t', \"q\\\"\\u0001\\u00e9\"]\n",
      report);
  REQUIRE(lines(report) == "");
  const std::string once = resolved_toml(report);
  Report again;
  const Zoo zoo = read_zoo(once, again);
  CHECK(lines(again) == "");
  CHECK(resolved_toml(again) == once);
  CHECK(zoo.name == "a \"zoo\"\n");
  CHECK(zoo.prices == std::vector<double>{1e300, 3.0, 0.1});
  CHECK(zoo.guests.at(1) == "q\"\x01\xc3\xa9");
  CHECK(zoo.pet.name() == "bird");
}

TEST_CASE("two members of one name are reported with both places") {
  const std::size_t before = registration_conflicts().size();
  struct Cat : Animal {
    struct Params {
      void describe(ParamVisitor&) {}
    };
    Cat(const Params&, const Context&) {}
    int legs() const override { return 3; }
  };
  const Register<Animal, Cat> second{"dog", "a cat in disguise"};
  REQUIRE(registration_conflicts().size() == before + 1);
  const std::string text = registration_conflicts().back().text();
  CHECK(text.find("two members of family toy_animal are named 'dog': ") == 0);
  CHECK(text.find("toy.cpp:") != std::string::npos);
  CHECK(text.find("reader_test.cpp:") != std::string::npos);
}
