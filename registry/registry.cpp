#include "registry/registry.h"

namespace moelab {
namespace {

// Function-local and never destroyed: families enter themselves while other files' globals are
// still being built.
std::map<std::string, FamilyRegistry*, std::less<>>& all_families() {
  static auto* all = new std::map<std::string, FamilyRegistry*, std::less<>>;
  return *all;
}

std::vector<Conflict>& all_conflicts() {
  static auto* all = new std::vector<Conflict>;
  return *all;
}

}  // namespace

FamilyRegistry::FamilyRegistry(std::string_view family) : family_(family) {
  all_families().emplace(family_, this);
}

const std::map<std::string, FamilyRegistry*, std::less<>>& families() { return all_families(); }
const std::vector<Conflict>& registration_conflicts() { return all_conflicts(); }
void report_registration_conflict(Conflict conflict) {
  all_conflicts().push_back(std::move(conflict));
}

std::string Conflict::text() const {
  return str("two members of family ", family, " are named '", name, "': ", first.file_name(), ":",
             first.line(), " and ", second.file_name(), ":", second.line());
}

}  // namespace moelab
