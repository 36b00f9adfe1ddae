// moelab new: a component to start from, with its test.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>

#include "core/cli/options.h"
#include "core/cli/templates.h"
#include "registry/error.h"
#include "registry/parameter_info.h"

namespace moelab {
namespace {

namespace fs = std::filesystem;

const ComponentTemplate& template_of(const std::string& family) {
  const auto& known = component_templates();
  if (const auto at = known.find(family); at != known.end()) return at->second;
  std::vector<std::string> names;
  std::string list;
  for (const auto& [name, entry] : known) {
    names.push_back(name);
    list += " " + name;
  }
  const std::string near = suggest(family, names);
  throw Error(ExitCode::usage,
              str("new: no family is named '", family, "'",
                  near.empty() ? "" : str("; did you mean '", near, "'?"), " (known:", list, ")"));
}

void check_name(const std::string& family, const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.front() < 'a' || name.front() > 'z' || !std::ranges::all_of(name, fits))
    throw Error(ExitCode::usage, str("new: NAME = '", name,
                                     "' must hold only small letters, digits "
                                     "and '_', and begin with a letter"));
  // Names that CMake keeps for itself would make a project that does not configure.
  for (const char* taken : {"all", "clean", "help", "install", "package", "test"})
    if (name == taken)
      throw Error(ExitCode::usage, str("new: NAME = '", name,
                                       "' is a target of CMake's; choose "
                                       "another name"));
  for (const EntryBase* entry : family_named(family).members())
    if (entry->name == name)
      throw Error(ExitCode::usage,
                  str("new: a ", family, " is already named '", name, "'; choose another name"));
}

void write(const fs::path& folder, const std::map<std::string, std::string>& files) {
  if (fs::exists(folder))
    throw Error(ExitCode::usage, str("new: ", folder.string(),
                                     " exists; remove it or choose "
                                     "another folder with --out"));
  std::error_code failure;
  fs::create_directories(folder, failure);
  for (const auto& [name, text] : files) {
    std::ofstream file(folder / name, std::ios::binary);
    file << text;
    if (failure || !file.flush())
      throw Error(ExitCode::resources, str("cannot write ", (folder / name).string()));
  }
}

int run(const Arguments& arguments, const Streams& streams) {
  const std::string& family = arguments.positional(0);
  const std::string& name = arguments.positional(1);
  const ComponentTemplate& entry = template_of(family);
  check_name(family, name);
  const std::string folder = arguments.text("out", name);
  write(folder, new_project(entry, name));
  streams.out << folder << ": " << name << ".cpp, " << name << "_test.cpp, CMakeLists.txt\n"
              << "build and test:  cmake -S " << folder << " -B " << folder
              << "/build -DCMAKE_PREFIX_PATH=<installed moelab> && cmake --build " << folder
              << "/build && ctest --test-dir " << folder << "/build\n"
              << "in a recipe:     plugins = [\"" << folder << "/build/" << name << ".so\"]\n"
              << "as a part of moelab: move " << name << ".cpp to " << entry.folder
              << "/ and add its name to the CMakeLists.txt there\n";
  return 0;
}

const RegisterVerb registered{
    {.name = "new",
     .summary = "write a component to start from, with its test",
     .positionals = {{"FAMILY", "e.g. router; see moelab components"},
                     {"NAME", "of the new component, e.g. my_router"}},
     .options = {{"out", "DIR", "the folder to make; default: NAME"}},
     .notes = "The folder is a CMake project that builds a plugin from an installed moelab; it "
              "compiles and passes as it is.",
     .run = run}};

}  // namespace
}  // namespace moelab
