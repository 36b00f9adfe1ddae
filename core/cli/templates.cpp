#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kProject =
    R"(# Needs an installed moelab (cmake --install of its build folder):
#   cmake -B build -DCMAKE_PREFIX_PATH=<where moelab was installed>
#   cmake --build build && ctest --test-dir build
cmake_minimum_required(VERSION 3.25)
project(@name@ LANGUAGES CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_package(moelab REQUIRED)
enable_testing()
moelab_add_plugin(@name@ @name@.cpp)
moelab_add_plugin_tests(@name@ @name@_test.cpp)
)";

std::map<std::string, ComponentTemplate, std::less<>>& mutable_templates() {
  static auto* table = new std::map<std::string, ComponentTemplate, std::less<>>;
  return *table;
}

// "my_router" → "MyRouter"
std::string class_name(const std::string& name) {
  std::string out;
  bool upper = true;
  for (const char c : name) {
    if (c != '_') out += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = c == '_';
  }
  return out;
}

std::string filled(std::string text, const std::string& mark, const std::string& value) {
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    text.replace(at, mark.size(), value);
    at += value.size();
  }
  return text;
}

}  // namespace

const std::map<std::string, ComponentTemplate, std::less<>>& component_templates() {
  return mutable_templates();
}

RegisterTemplate::RegisterTemplate(ComponentTemplate entry) {
  const std::string family = entry.family;
  mutable_templates().insert_or_assign(family, std::move(entry));
}

std::map<std::string, std::string> new_project(const ComponentTemplate& entry,
                                               const std::string& name) {
  const auto fill = [&](const std::string& text) {
    return filled(filled(text, "@name@", name), "@Name@", class_name(name));
  };
  return {{"CMakeLists.txt", fill(kProject)},
          {name + ".cpp", fill(entry.component)},
          {name + "_test.cpp", fill(entry.test)}};
}

}  // namespace moelab
