// Text from disk: one file, or all regular files below a folder in the order of their paths.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moelab {

struct TextFile {
  std::string path;
  std::string bytes;
};

// Reads `path` whole. Folders are walked recursively (links to folders are not followed) and sorted
// by path, so that the order is the same on every machine. Throws Error(data) naming the path, what
// is wrong with it and the remedy; never opens anything but regular files.
std::vector<TextFile> read_text_files(const std::string& path);

// "12.3 MB in 4 files" and one line a file, at most `lines` of them.
std::string describe_files(const std::vector<TextFile>& files, std::size_t lines = 20);

// Of the files' contents in order: changes with any byte.
std::uint64_t fingerprint_of(const std::vector<TextFile>& files);

}  // namespace moelab
