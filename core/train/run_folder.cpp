#include "core/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <ostream>

#include "core/backend/gemm.h"
#include "core/base/build_info.h"
#include "core/base/threads.h"
#include "core/checkpoint/file_io.h"
#include "core/telemetry/metrics.h"
#include "registry/error.h"

namespace moelab {
namespace {

namespace fs = std::filesystem;

bool holds_run_at(const std::string& path) {
  return fs::exists(path + "/recipe.toml") || fs::exists(path + "/metrics.jsonl") ||
         fs::exists(path + "/checkpoints");
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

RunFolder::RunFolder(std::string path) : path_(std::move(path)) {
  std::error_code failure;
  fs::path missing = fs::path(path_).lexically_normal();
  if (!missing.has_filename()) missing = missing.parent_path();  // "runs/mine/"
  for (; !missing.empty() && !fs::exists(missing, failure); missing = missing.parent_path())
    made_.push_back(missing.string());
  fs::create_directories(path_, failure);
  if (failure)
    throw Error(ExitCode::resources,
                str("cannot create the run folder ", path_, ": ", failure.message()));
  lock();
}

void RunFolder::lock() {
  for (bool mine = false; !mine;) {
    lock_ = ::open(file("lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock_ < 0)
      throw Error(ExitCode::resources,
                  str("cannot write into the run folder ", path_, ": ", std::strerror(errno)));
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      ::close(lock_);
      throw Error(ExitCode::usage, str("the run folder ", path_,
                                       " is in use by another process; wait for it or choose "
                                       "another folder with --out"));
    }
    struct stat held {
    }, named{};  // differ when the last owner has just removed its lock
    mine = ::fstat(lock_, &held) == 0 && ::stat(file("lock").c_str(), &named) == 0 &&
           held.st_ino == named.st_ino;
    if (!mine) ::close(lock_);
  }
}

RunFolder::~RunFolder() {
  if (lock_ < 0) return;
  std::error_code failure;
  int entries = 0;
  for (fs::directory_iterator at(path_, failure), end; !failure && at != end; at.increment(failure))
    ++entries;
  if (!failure && entries == 1) {  // the lock alone: no run came of it
    ::unlink(file("lock").c_str());
    for (const std::string& folder : made_)
      if (::rmdir(folder.c_str()) != 0) break;
  }
  ::close(lock_);
}

bool RunFolder::holds_run() const { return holds_run_at(path_); }

void RunFolder::write(const std::string& name, const std::string& text) const {
  replace_file(file(name), text);
}

std::string RunFolder::link_latest() const {
  std::error_code failure;
  const fs::path runs = "runs", link = runs / "latest", aside = runs / ".latest.new";
  fs::create_directories(runs, failure);
  fs::path target = fs::weakly_canonical(path_, failure);
  const fs::path home = fs::weakly_canonical(runs, failure);
  if (target.parent_path() == home) target = target.filename();
  if (!failure) fs::remove(aside, failure);
  if (!failure) fs::create_directory_symlink(target, aside, failure);
  if (!failure) fs::rename(aside, link, failure);
  return failure ? str("runs/latest cannot point to ", path_, ": ", failure.message()) : "";
}

std::string default_run_folder(const std::string& recipe, const std::string& preferred,
                               bool resumes) {
  const std::string base =
      preferred.empty() ? "runs/" + fs::path(recipe).stem().string() : preferred;
  std::string last = base;
  for (int i = 1;; ++i) {
    const std::string path = i == 1 ? base : str(base, "-", i);
    if (!holds_run_at(path)) return resumes ? last : path;
    last = path;
  }
}

Checkpoint find_checkpoint(const std::string& path, std::ostream& warnings) {
  if (fs::exists(fs::path(path) / kMetaFile)) return open_checkpoint(path);
  std::string why = "it does not exist";
  std::string remedy =
      "name a run's folder, e.g. runs/latest, or a checkpoint's, e.g. "
      "runs/latest/checkpoints/step-100";
  if (fs::exists(path + "/checkpoints")) {
    if (auto found = CheckpointStore(path + "/checkpoints", 2).newest_whole(warnings))
      return *std::move(found);
    why = "the run's folder has no whole one";
    remedy = "start the run anew";
  } else if (fs::exists(path)) {
    why = fs::is_directory(path) ? "it holds neither checkpoints/ nor meta.json" : "it is a file";
  }
  throw Error(ExitCode::checkpoint, str("no checkpoint at '", path, "': ", why, "; ", remedy));
}

std::string find_weights(const std::string& path, std::ostream& warnings) {
  if (!fs::exists(path))
    throw Error(ExitCode::checkpoint,
                str("--init '", path, "' does not exist; name a .safetensors file, a folder with ",
                    "model.safetensors or its index, or the folder of a run or checkpoint"));
  const bool ours = fs::exists(path + "/checkpoints") || fs::exists(fs::path(path) / kMetaFile);
  return ours ? find_checkpoint(path, warnings).file(kModelFile) : path;
}

std::string run_of(const std::string& path) {
  if (!fs::exists(fs::path(path) / kMetaFile)) return path;
  const fs::path checkpoints = fs::weakly_canonical(path).parent_path();
  return checkpoints.filename() == "checkpoints" ? checkpoints.parent_path().string() : "";
}

std::string environment_json(int threads, Index ranks) {
  const BuildInfo& build = build_info();
  utsname system{};
  ::uname(&system);
  std::string libraries = json_string(gemm_library());
  for (const auto& [name, version] : build.libraries)
    libraries += str(", ", json_string(str(name, " ", version)));
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value ? json_string(value) : "null";
  };
  return str("{\n  \"version\": ", json_string(build.version),
             ",\n  \"compiler\": ", json_string(build.compiler),
             ",\n  \"build_type\": ", json_string(build.build_type),
             ",\n  \"flags\": ", json_string(build.flags), ",\n  \"libraries\": [", libraries,
             "],\n  \"cpu\": ", json_string(cpu_model()), ",\n  \"cores\": ", hardware_threads(),
             ",\n  \"threads\": ", threads, ",\n  \"ranks\": ", ranks,
             ",\n  \"host\": ", json_string(system.nodename),
             ",\n  \"system\": ", json_string(str(system.sysname, " ", system.release)),
             ",\n  \"started\": ", json_string(now_text()), ",\n  \"process\": ", ::getpid(),
             ",\n  \"OMP_NUM_THREADS\": ", variable("OMP_NUM_THREADS"),
             ",\n  \"OMP_WAIT_POLICY\": ", variable("OMP_WAIT_POLICY"),
             ",\n  \"GOMP_SPINCOUNT\": ", variable("GOMP_SPINCOUNT"), "\n}\n");
}

}  // namespace moelab
