// A small family and a small recipe schema that exercise every kind of parameter.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "registry/recipe.h"

namespace moelab::toy {

enum class Colour : std::uint8_t { red, green };

struct Animal {
  static constexpr std::string_view family = "toy_animal";
  struct Facts {
    std::int64_t legs = 4;
  };
  struct Traits {
    bool barks = false;
  };
  struct Context {};
  virtual ~Animal() = default;
  virtual int legs() const = 0;
};

struct Zoo {
  bool open = true;
  std::int64_t size = 3;
  double ratio = 0.5;
  std::string name = "a \"zoo\"\n";
  Colour colour = Colour::green;
  std::vector<std::string> guests{"ann", "bob"};
  std::vector<double> prices{1.0, 2.5};
  Component<Animal> pet{"dog"};
  Components<Animal> animals;
  struct Inner {
    std::int64_t depth = 1;
    void describe(ParamVisitor& v) { v("depth", depth, "how deep", at_least(1)); }
  } inner;
  void describe(ParamVisitor& v);
};

Zoo read_zoo(const Node& root, Report& report);
Zoo read_zoo(std::string_view text, Report& report);  // as file "zoo.toml"
std::string lines(const Report& report);              // every problem, one a line

// A folder of files that goes away with it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string write(const std::string& name, std::string_view text) const;
  std::string path(const std::string& name) const { return root_ + "/" + name; }

 private:
  std::string root_;
};

}  // namespace moelab::toy

template <>
struct moelab::EnumNames<moelab::toy::Colour> {
  static constexpr std::array<std::pair<std::string_view, toy::Colour>, 2> value{
      {{"red", toy::Colour::red}, {"green", toy::Colour::green}}};
};
