#include "core/data/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/base/rng.h"
#include "registry/error.h"
#include "registry/text.h"

namespace moelab {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(ExitCode::data, str("data '", path, "' ", what));
}

std::string read_file(const fs::path& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file)
    fail(path.string(), str("cannot be opened: ", std::strerror(errno),
                            "; check its permissions or name another file"));
  std::string bytes;
  std::error_code ignored;
  const auto size = fs::file_size(path, ignored);
  if (!ignored) bytes.reserve(size);
  char block[1 << 16];
  while (const std::size_t got = std::fread(block, 1, sizeof block, file.get()))
    bytes.append(block, got);
  if (std::ferror(file.get())) fail(path.string(), str("cannot be read: ", std::strerror(errno)));
  return bytes;
}

std::vector<fs::path> files_below(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code ignored;  // a dangling link is not a regular file
    if (at->is_regular_file(ignored)) paths.push_back(at->path());
  }
  if (error) fail(folder, str("cannot be listed: ", error.message(), "; check its permissions"));
  if (paths.empty()) fail(folder, "is a folder without regular files; put text files into it");
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::vector<TextFile> read_text_files(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    fail(path,
         "does not exist; give a text file or a folder of them, relative to the current "
         "folder (scripts/quickstart fetches the text of its recipe)");
  if (error) fail(path, str("cannot be examined: ", error.message()));
  std::vector<TextFile> files;
  if (fs::is_directory(status)) {
    for (const fs::path& file : files_below(path))
      files.push_back({file.string(), read_file(file)});
  } else if (fs::is_regular_file(status)) {
    files.push_back({path, read_file(path)});
  } else {
    fail(path, "is neither a regular file nor a folder; save its contents to a file first");
  }
  std::erase_if(files, [](const TextFile& file) { return file.bytes.empty(); });
  if (files.empty()) fail(path, "holds no bytes; give a text that is not empty");
  return files;
}

std::string describe_files(const std::vector<TextFile>& files, std::size_t lines) {
  std::size_t total = 0;
  for (const TextFile& file : files) total += file.bytes.size();
  std::string text =
      str(total, " bytes in ", files.size(), files.size() == 1 ? " file\n" : " files\n");
  for (std::size_t i = 0; i < std::min(lines, files.size()); ++i)
    text += str("  ", files[i].path, "  ", files[i].bytes.size(), " bytes\n");
  if (files.size() > lines) text += str("  … and ", files.size() - lines, " more\n");
  return text;
}

std::uint64_t fingerprint_of(const std::vector<TextFile>& files) {
  std::uint64_t hash = files.size();
  for (const TextFile& file : files) hash = hash64(file.bytes, hash);
  return hash;
}

}  // namespace moelab
