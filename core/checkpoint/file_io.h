// Files that must survive a crash, and hashes that tell whether they did. Hashes are XXH3-128 as
// `xxhsum -H2` prints them. Every failure is Error(resources) with the path and the system's
// reason.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace moelab {

// A new file: written in order, hashed on the way, on disk when finish() returns.
class DurableFile {
 public:
  explicit DurableFile(std::string path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  std::string finish();  // fsyncs and closes; returns the hash of the contents

 private:
  struct State;
  std::string path_;
  std::unique_ptr<State> state_;
};

std::string hash_text(std::string_view text);
std::string hash_file(const std::string& path);  // "" if it cannot be read
void sync_folder(const std::string& path);       // makes renames inside it durable
std::string read_text(const std::string& path);  // throws Error(checkpoint) if it cannot be read
// Replaces `path` in one step: a reader sees the old text or the new one.
void replace_file(const std::string& path, std::string_view text);

}  // namespace moelab
