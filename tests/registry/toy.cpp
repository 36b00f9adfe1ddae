#include "tests/registry/toy.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace moelab::toy {
namespace {

struct Dog : Animal {
  struct Params {
    std::int64_t barks = 2;
    void describe(ParamVisitor& v) { v("barks", barks, "how often", between(1, 9)); }
    void check(const Facts& facts, Checker& c) const {
      if (barks > facts.legs) c.error("barks", "is more than its ", facts.legs, " legs");
    }
    Traits traits() const { return {true}; }
    std::string formula() const { return "barks " + std::to_string(barks) + " times"; }
  };
  Dog(const Params&, const Context&) {}
  int legs() const override { return 4; }
};
struct Bird : Animal {
  struct Params {
    Component<Animal> prey{"dog"};
    void describe(ParamVisitor& v) { v("prey", prey, "what it eats"); }
  };
  Bird(const Params&, const Context&) {}
  int legs() const override { return 2; }
};
const Register<Animal, Dog> dog{"dog", "barks"};
const Register<Animal, Bird> bird{"bird", "flies"};

}  // namespace

void Zoo::describe(ParamVisitor& v) {
  v("open", open, "may be visited");
  v("size", size, "cages", between(1, 100));
  v("ratio", ratio, "of cats", from_below(0, 1));
  v("name", name, "on the gate");
  v("colour", colour, "of the gate");
  v("guests", guests, "who comes");
  v("prices", prices, "of tickets", greater_than(0));
  v("pet", pet, "the director's");
  v("animals", animals, "all others");
  v.section("inner", inner, "inside");
}

Zoo read_zoo(const Node& root, Report& report) {
  Zoo zoo;
  read_into(
      root, "", [&](ParamVisitor& v) { v.section("zoo", zoo, "the zoo"); }, report);
  return zoo;
}

Zoo read_zoo(std::string_view text, Report& report) {
  return read_zoo(parse_recipe(text, "zoo.toml", Source::Origin::recipe, report), report);
}

std::string lines(const Report& report) {
  std::string out;
  for (const Problem& problem : report.problems()) out += problem.line() + "\n";
  return out;
}

Folder::Folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "moelab-XXXXXX").string();
  root_ = ::mkdtemp(pattern.data());
}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}
std::string Folder::write(const std::string& name, std::string_view text) const {
  std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
  std::ofstream(path(name), std::ios::binary) << text;
  return path(name);
}

}  // namespace moelab::toy
