// docs/families: a page a family. Name, summary, formula and parameters of each member are written
// from the registry; below them stands what people wrote, which is kept: **Source.**, **Golden.**
// (suites of recorded numbers), **When.** and **Costs.**
#pragma once
#include <map>
#include <string>
#include <vector>

#include "registry/registry.h"

namespace moelab::testing {

// The page with everything that follows from the registry brought up to date.
std::string family_page(const FamilyRegistry& family, const std::string& old_page);

// What people wrote about a member, by word: {"Source", "…"}.
using Words = std::map<std::string, std::string>;
std::map<std::string, Words> words_of(const std::string& page);  // by member
const std::vector<std::string>& required_words();                // of every member

// docs/families/README.md: every member with its source and golden suites. `pages` by family.
std::string family_index(const std::map<std::string, std::string>& pages);

}  // namespace moelab::testing
