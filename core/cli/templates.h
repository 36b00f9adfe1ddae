// What `moelab new` writes for each family: a component that works as it stands, and a test of what
// it promises beyond the contracts. In both, @name@ stands for the component's name, @Name@ for its
// class.
#pragma once
#include <map>
#include <string>

namespace moelab {

struct ComponentTemplate {
  std::string family;
  std::string folder;  // where such a component lives in moelab's own tree, e.g. "routers"
  std::string component, test;
};
// Each registered by the last line of its own file, by family.
const std::map<std::string, ComponentTemplate, std::less<>>& component_templates();
struct RegisterTemplate {
  explicit RegisterTemplate(ComponentTemplate entry);
};

// The files of a plugin project with one component: name and text.
std::map<std::string, std::string> new_project(const ComponentTemplate& entry,
                                               const std::string& name);

}  // namespace moelab
