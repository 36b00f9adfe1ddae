#include "core/checkpoint/file_io.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "core/base/check.h"
#include "registry/error.h"

namespace moelab {
namespace {

[[noreturn]] void fail(const char* doing, const std::string& path) {
  const int reason = errno;
  std::string text = str(doing, " ", path, ": ", std::strerror(reason));
  if (reason == ENOSPC || reason == EDQUOT || reason == EFBIG)
    text += "; make room (or lower train.keep_checkpoints) and resume from the last checkpoint";
  throw Error(ExitCode::resources, text);
}

std::string hex(const XXH128_hash_t hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

struct FreeHash {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};
using HashState = std::unique_ptr<XXH3_state_t, FreeHash>;

HashState new_hash() {
  HashState state(XXH3_createState());
  MOELAB_CHECK(state && XXH3_128bits_reset(state.get()) == XXH_OK);
  return state;
}

}  // namespace

struct DurableFile::State {
  int file = -1;
  HashState hash;
};

DurableFile::DurableFile(std::string path)
    : path_(std::move(path)), state_(std::make_unique<State>()) {
  state_->hash = new_hash();
  state_->file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (state_->file < 0) fail("cannot create", path_);
}

DurableFile::~DurableFile() {
  if (state_->file >= 0) ::close(state_->file);
}

void DurableFile::write(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->hash.get(), bytes.data(), bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = ::write(state_->file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write", path_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void DurableFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

std::string DurableFile::finish() {
  if (::fsync(state_->file) != 0) fail("cannot write", path_);
  const int closed = ::close(state_->file);
  state_->file = -1;
  if (closed != 0) fail("cannot write", path_);
  return hex(XXH3_128bits_digest(state_->hash.get()));
}

std::string hash_text(std::string_view text) { return hex(XXH3_128bits(text.data(), text.size())); }

std::string hash_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  const HashState hash = new_hash();
  std::vector<char> block(std::size_t{1} << 20);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0)
    XXH3_128bits_update(hash.get(), block.data(), static_cast<std::size_t>(file.gcount()));
  return file.eof() ? hex(XXH3_128bits_digest(hash.get())) : std::string{};
}

void sync_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail("cannot open", path);
  const int synced = ::fsync(folder);
  const int reason = errno;
  ::close(folder);
  errno = reason;
  if (synced != 0 && reason != EINVAL) fail("cannot write", path);  // EINVAL: nothing to sync here
}

std::string read_text(const std::string& path) {
  std::error_code ignored;
  std::ifstream file(path, std::ios::binary);
  if (!file || !std::filesystem::is_regular_file(path, ignored))
    throw Error(ExitCode::checkpoint, str("cannot read ", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void replace_file(const std::string& path, std::string_view text) {
  const std::string aside = path + ".new";
  DurableFile file(aside);
  file.write(text);
  file.finish();
  if (::rename(aside.c_str(), path.c_str()) != 0) fail("cannot replace", path);
  const auto folder = std::filesystem::path(path).parent_path();
  sync_folder(folder.empty() ? "." : folder.string());
}

}  // namespace moelab
