#include "registry/plugin.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <moelab_build.h>
#include <array>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "registry/error.h"
#include "registry/registry.h"

namespace moelab {
namespace {

namespace fs = std::filesystem;
using Members = std::set<std::pair<std::string, std::string>>;

constexpr const char* kRemedy = "; build it again with the moelab that loads it";

// The parts of a stamp, in its order.
using Stamp = std::array<std::string, 4>;
constexpr std::array<const char*, 4> kPartNames{"another version", "another compiler",
                                                "another C++ library", "other headers"};

// The text after the mark; nothing if there is no mark or the text is cut off.
std::optional<Stamp> stamp_in(const std::string& bytes) {
  const std::size_t mark = bytes.find(MOELAB_PLUGIN_MARK);
  if (mark == std::string::npos) return {};
  std::size_t at = mark + std::string_view(MOELAB_PLUGIN_MARK).size();
  Stamp stamp;
  for (std::string& part : stamp) {
    const std::size_t end = bytes.find('\n', at);
    if (end == std::string::npos) return {};
    part = bytes.substr(at, end - at);
    at = end + 1;
  }
  return stamp;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ExitCode::usage, str("cannot load the plugin ", path, ": ", why));
}

void check_stamp(const std::string& path) {
  std::error_code failure;
  if (!fs::exists(path, failure)) refuse(path, "there is no such file");
  if (!fs::is_regular_file(path, failure)) refuse(path, "it is not a regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "it cannot be read");
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const std::optional<Stamp> found = stamp_in(bytes);
  if (!found)
    refuse(path,
           "it is no plugin of moelab; build it with moelab_add_plugin() of the CMake "
           "package moelab");
  const Stamp own = *stamp_in(MOELAB_PLUGIN_STAMP);
  for (std::size_t i = 0; i < own.size(); ++i)
    if ((*found)[i] != own[i])
      refuse(path, str("it was built for ", kPartNames[i], " (", (*found)[i],
                       "; this program: ", own[i], ")", kRemedy));
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : symbol;
}

// dlopen's sentence, with the missing symbol as its author wrote it.
std::string loading_problem(const std::string& text) {
  constexpr std::string_view kUndefined = "undefined symbol: ";
  const std::size_t at = text.find(kUndefined);
  if (at == std::string::npos) return text;
  const std::string symbol = text.substr(at + kUndefined.size());
  return str("it uses ", demangled(symbol.substr(0, symbol.find_first_of(" \t,"))),
             ", which this program does not have; link what defines it into the plugin");
}

Members registered() {
  Members out;
  for (const auto& [family, registry] : families())
    for (const EntryBase* entry : registry->members()) out.emplace(family, entry->name);
  return out;
}

Plugin open(const std::string& path) {
  check_stamp(path);
  const Members before = registered();
  const std::size_t conflicts = registration_conflicts().size();
  // All symbols now, so that a missing one is told here; never unloaded, since components stay.
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
    refuse(path, loading_problem(::dlerror()));
  if (registration_conflicts().size() > conflicts)
    refuse(path, registration_conflicts()[conflicts].text() + "; rename the plugin's");
  Plugin plugin{path, {}};
  for (const auto& member : registered())
    if (!before.contains(member)) plugin.members.push_back(member);
  if (plugin.members.empty())
    refuse(path,
           "it registers no component; its last line should be "
           "`const Register<Family, Member> registered{…};`");
  return plugin;
}

}  // namespace

const Plugin& load_plugin(const std::string& path) {
  static std::mutex mutex;
  static auto* loaded = new std::deque<Plugin>;  // never destroyed, as the libraries are not
  const std::lock_guard lock(mutex);
  std::error_code failure;
  fs::path full = fs::weakly_canonical(fs::absolute(path), failure);
  if (failure) full = fs::absolute(path);
  for (const Plugin& plugin : *loaded)
    if (plugin.path == full.string()) return plugin;
  loaded->push_back(open(full.string()));
  return loaded->back();
}

void load_plugins(const Node& recipe, Report& report) {
  const Node* plugins = recipe.find("plugins");
  const auto* items = plugins ? std::get_if<Node::Array>(&plugins->value) : nullptr;
  if (!items) return;
  for (const Node& item : *items) {
    const auto* path = std::get_if<std::string>(&item.value);
    if (!path) continue;
    try {
      load_plugin(*path);
    } catch (const Error& error) {
      report.problem({Problem::Severity::error, item.source, error.what(), "plugins"});
    }
  }
}

}  // namespace moelab
