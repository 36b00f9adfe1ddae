// Reads the bytes of a recipe without ever blocking or swallowing a device.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "registry/toml_reader.h"

namespace moelab {
namespace {

class File {
 public:
  explicit File(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

std::optional<std::string> read_recipe_file(const std::string& path, const Source& blame,
                                            Report& report) {
  const auto fail = [&](const std::string& why) {
    report.problem(
        {Problem::Severity::error, blame, str("cannot read recipe '", path, "': ", why), ""});
    return std::nullopt;
  };
  const File file(path);
  if (file.get() < 0) return fail(std::strerror(errno));
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return fail(std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) return fail(kind_of(facts.st_mode) + ", not a regular file");
  std::string text;
  std::array<char, 1 << 16> buffer{};
  while (text.size() <= kMaxRecipeBytes) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(std::strerror(errno));
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return fail(str("larger than ", kMaxRecipeBytes, " bytes"));
}

}  // namespace moelab
