// One declaration per parameter. A Params struct gives types and defaults by member initialisers;
// its describe(visitor) gives names, one-line docs and rules, once. Reading a recipe, validating
// it, listing components, documentation, `--set` and the resolved recipe are all visitors over it.
#pragma once
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace moelab {

struct Rule {  // what a number must satisfy; docs and errors print it
  std::optional<double> least, most;
  bool open_least = false, open_most = false;  // exclusive bounds
  std::string text() const;                    // "in [0, 1)", "at least 1", "greater than 0", ""
  bool holds(double value) const;              // false for NaN and infinities
};
inline Rule between(double least, double most) { return {least, most}; }
inline Rule at_least(double least) { return {least, std::nullopt}; }
inline Rule greater_than(double least) { return {least, std::nullopt, true}; }
inline Rule from_below(double least, double most) {  // [least, most)
  return {least, most, false, true};
}

// Specialise for an enum that a recipe may name:
//   template <> struct EnumNames<Score> {
//     static constexpr std::array<std::pair<std::string_view, Score>, 2> value{{{"softmax",
//     Score::softmax}, …}};
//   };
template <class E>
struct EnumNames;

template <class E>
std::string_view enum_name(E value) {
  for (const auto& [name, known] : EnumNames<E>::value)
    if (known == value) return name;
  return "?";
}

class Slot;        // registry/component.h: "a component of this family goes here"
class NamedSlots;  // registry/component.h: any number of them, each under a name of the user's

class ParamVisitor {
 public:
  virtual ~ParamVisitor() = default;

  // Visits one parameter. `value` holds the default before the call and the value after it.
  template <class T>
  void operator()(std::string_view key, T& value, std::string_view doc, const Rule& rule = {});

  // Visits a nested struct that has its own describe(): a table of its own.
  template <class S>
  void section(std::string_view key, S& nested, std::string_view doc) {
    enter(key, doc);
    nested.describe(*this);
    leave();
  }

 protected:
  virtual void boolean(std::string_view key, bool& value, std::string_view doc) = 0;
  virtual void integer(std::string_view key, std::int64_t& value, std::string_view doc,
                       const Rule& rule) = 0;
  virtual void real(std::string_view key, double& value, std::string_view doc,
                    const Rule& rule) = 0;
  virtual void text(std::string_view key, std::string& value, std::string_view doc) = 0;
  // `at` indexes `names`.
  virtual void choice(std::string_view key, std::size_t& at,
                      std::span<const std::string_view> names, std::string_view doc) = 0;
  virtual void texts(std::string_view key, std::vector<std::string>& value,
                     std::string_view doc) = 0;
  virtual void reals(std::string_view key, std::vector<double>& value, std::string_view doc,
                     const Rule& rule) = 0;
  virtual void slot(std::string_view key, Slot& value, std::string_view doc) = 0;
  virtual void slots(std::string_view key, NamedSlots& value, std::string_view doc) = 0;
  virtual void enter(std::string_view key, std::string_view doc) = 0;
  virtual void leave() = 0;
};

template <class T>
void ParamVisitor::operator()(std::string_view key, T& value, std::string_view doc,
                              const Rule& rule) {
  // NOLINTBEGIN(bugprone-branch-clone): the linter takes discarded branches for equal ones
  if constexpr (std::is_enum_v<T>) {
    std::vector<std::string_view> names;
    std::size_t at = 0;
    for (const auto& [name, known] : EnumNames<T>::value) {
      if (known == value) at = names.size();
      names.push_back(name);
    }
    choice(key, at, names, doc);
    value = EnumNames<T>::value[at].second;
  } else if constexpr (std::is_same_v<T, bool>) {
    boolean(key, value, doc);
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    integer(key, value, doc, rule);
  } else if constexpr (std::is_same_v<T, double>) {
    real(key, value, doc, rule);
  } else if constexpr (std::is_same_v<T, std::string>) {
    text(key, value, doc);
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    texts(key, value, doc);
  } else if constexpr (std::is_same_v<T, std::vector<double>>) {
    reals(key, value, doc, rule);
  } else if constexpr (std::derived_from<T, Slot>) {
    slot(key, value, doc);
  } else {
    static_assert(
        std::derived_from<T, NamedSlots>,
        "parameters are bool, int64_t, double, string, enum, vectors of string or double, "
        "Component or Components");
    slots(key, value, doc);
  }
  // NOLINTEND(bugprone-branch-clone)
}

}  // namespace moelab
