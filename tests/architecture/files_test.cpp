// House rules that can be read off the text.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/architecture/source_tree.h"

using namespace moelab::testing;

namespace {

constexpr std::size_t kMostLines = 400;

bool contains(const std::string& line, const std::string& word) {
  return line.find(word) != std::string::npos;
}

// Words in pieces, so that this file does not find itself.
const std::vector<std::string>& forbidden_words() {
  static const std::vector<std::string> words{
      std::string("TO") + "DO",   std::string("FIX") + "ME",  std::string("/wo") + "rk/",
      std::string("/ho") + "me/", std::string("/ro") + "ot/", std::string("DESIGN") + ".md"};
  return words;
}

}  // namespace

TEST_CASE("no source file is longer than 400 lines") {
  for (const SourceFile& file : source_tree())
    if (is_cpp(file))
      CHECK_MESSAGE(file.lines.size() <= kMostLines, file.path, " has ", file.lines.size());
}

TEST_CASE("kernels include only what nvcc can take") {
  const std::set<std::string> allowed{"core/backend/for_each.h", "<cmath>", "<cstdint>"};
  int kernels = 0;
  for (const SourceFile& file : source_tree()) {
    if (!file.ends_with(".k.cpp") && !file.ends_with(".k.h")) continue;
    kernels += file.ends_with(".k.cpp") ? 1 : 0;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string path = included(file.lines[i]);
      if (path.empty() || path.ends_with(".k.h")) continue;
      CHECK_MESSAGE(allowed.contains(path), file.path, ":", i + 1, " includes ", path);
    }
  }
  CHECK(kernels > 0);
}

TEST_CASE("only the command line writes to standard output or ends the process") {
  for (const SourceFile& file : source_tree()) {
    if (!is_cpp(file) || file.path.starts_with("core/cli/") || file.path.starts_with("tests/"))
      continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i)
      for (const char* word :
           {"std::cout", "std::cerr", "std::puts", "std::printf", "exit(", "abort("})
        CHECK_MESSAGE((!contains(file.lines[i], word) || file.path == "core/base/cpu_guard.cpp"),
                      file.path, ":", i + 1, " uses ", word);
  }
}

TEST_CASE("toml++ , Boost, doctest and oneDNN stay behind one file each") {
  const std::vector<std::pair<std::string, std::string>> homes{
      {"<toml++", "registry/toml_reader.cpp"},
      {"<boost/", "core/cli/options.cpp"},
      {"<oneapi/", "core/backend/gemm.cpp"}};
  for (const auto& [header, home] : homes) {
    int found = 0;
    for (const SourceFile& file : source_tree())
      for (const std::string& line : file.lines) {
        if (!included(line).starts_with(header)) continue;
        ++found;
        CHECK_MESSAGE(file.path == home, file.path, " includes ", line);
      }
    CHECK_MESSAGE(found > 0, home, " no longer includes ", header);
  }
}

TEST_CASE("nothing unfinished, and no path of any machine") {
  for (const SourceFile& file : source_tree())
    for (std::size_t i = 0; i < file.lines.size(); ++i)
      for (const std::string& word : forbidden_words())
        CHECK_MESSAGE(!contains(file.lines[i], word), file.path, ":", i + 1, " has ", word);
}

TEST_CASE("headers guard themselves") {
  for (const SourceFile& file : source_tree()) {
    if (!file.ends_with(".h")) continue;
    const bool guarded =
        std::find(file.lines.begin(), file.lines.end(), "#pragma once") != file.lines.end();
    CHECK_MESSAGE(guarded, file.path, " lacks #pragma once");
  }
}
