// The sources as text, for tests about them.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "test_paths.h"

namespace moelab::testing {

struct SourceFile {
  std::string path;  // from the repository root
  std::vector<std::string> lines;
  bool ends_with(std::string_view end) const { return path.ends_with(end); }
};

// Every file of the repository that is text of ours: no build, run or data folders.
inline const std::vector<SourceFile>& source_tree() {
  static const std::vector<SourceFile> files = [] {
    namespace fs = std::filesystem;
    const fs::path root = MOELAB_SOURCE_DIR;
    std::vector<SourceFile> out;
    for (auto at = fs::recursive_directory_iterator(root); at != fs::end(at); ++at) {
      const std::string path = fs::relative(at->path(), root).generic_string();
      if (path == ".git" || path == "build" || path == "runs" || path == "data") {
        at.disable_recursion_pending();
        continue;
      }
      if (!at->is_regular_file() || path.ends_with(".safetensors")) continue;
      SourceFile file{path, {}};
      std::ifstream in(at->path());
      for (std::string line; std::getline(in, line);) file.lines.push_back(line);
      out.push_back(std::move(file));
    }
    return out;
  }();
  return files;
}

inline bool is_cpp(const SourceFile& file) {
  return file.ends_with(".cpp") || file.ends_with(".h") || file.ends_with(".cu");
}

// "a/b.h" of `#include "a/b.h"`, "" for any other line; <x> with its brackets.
inline std::string included(const std::string& line) {
  std::size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '#') return "";
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string::npos || line.compare(at, 7, "include") != 0) return "";
  const std::size_t begin = line.find_first_of("\"<", at + 7);
  if (begin == std::string::npos) return "";
  const bool quoted = line[begin] == '"';
  const std::size_t end = line.find(quoted ? '"' : '>', begin + 1);
  return quoted ? line.substr(begin + 1, end - begin - 1) : line.substr(begin, end - begin + 1);
}

}  // namespace moelab::testing
