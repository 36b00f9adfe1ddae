// The program itself, killed: -9 at any moment, SIGTERM, Ctrl-C. Whatever happens, the run that
// goes on ends as one that was never disturbed.
#include <csignal>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "core/checkpoint/store.h"
#include "test_paths.h"
#include "tests/train/tiny_run.h"

using namespace moelab;
using moelab::testing::TinyRun;
namespace fs = std::filesystem;

namespace {

constexpr const char* kProgram = MOELAB_BINARY_DIR "/moelab";

class Process {
 public:
  explicit Process(const TinyRun& run, const std::string& out) {
    std::vector<std::string> words{kProgram,      "train",
                                   run.recipe(),  "--out",
                                   run.path(out), "--resume",
                                   "auto",        "--threads",
                                   "1",           "--quiet",
                                   "--set",       "train.steps=40",
                                   "--set",       "train.checkpoint_every=1"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::string log = run.path(out + ".log");
    id_ = ::fork();
    if (id_ != 0) return;
    ::setpriority(PRIO_PROCESS, 0, 4);  // on a busy machine it must not outrun who watches it
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execv(kProgram, arguments.data());
    ::_exit(127);
  }
  void signal(int number) {
    if (running()) ::kill(id_, number);
  }
  bool running() { return !look(WNOHANG); }
  int wait() {  // the exit code, or −signal
    look(0);
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }

 private:
  bool look(int options) {
    if (!ended_) ended_ = ::waitpid(id_, &status_, options) == id_;
    return ended_;
  }

  pid_t id_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

// Returns once the run has written `lines` more lines of metrics than before, or has ended.
void wait_for_lines(const TinyRun& run, Process& process, const std::string& out,
                    std::size_t lines) {
  const auto count = [&] {
    return fs::exists(run.path(out + "/metrics.jsonl")) ? run.numbers(out, "step").size() : 0;
  };
  const std::size_t before = count();
  while (count() < before + lines && process.running())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void check_undisturbed(const TinyRun& run, const std::string& out) {
  CHECK(run.metrics(out) == run.metrics("whole"));
  for (const char* file : {kModelFile, kOptimizerFile, kStateFile})
    CHECK(run.bytes(str(out, "/checkpoints/step-40/", file)) ==
          run.bytes(str("whole/checkpoints/step-40/", file)));
}

}  // namespace

TEST_CASE("killed with -9 again and again, a run ends as if it never was") {
  const TinyRun run;
  REQUIRE(Process(run, "whole").wait() == 0);
  for (std::size_t round = 0; round < 6; ++round) {
    Process process(run, "killed");
    wait_for_lines(run, process, "killed", 2 + round % 3);
    // Somewhere between two steps: most of that time a checkpoint is being written.
    std::this_thread::sleep_for(std::chrono::microseconds(700 * round));
    process.signal(SIGKILL);
    CHECK(process.wait() == -SIGKILL);
  }
  CHECK(run.numbers("killed", "step").size() < 40);
  REQUIRE(Process(run, "killed").wait() == 0);
  check_undisturbed(run, "killed");

  for (const auto& [signal, code] : {std::pair(SIGTERM, 75), {SIGINT, 130}}) {
    const std::string out = str("signal", signal);
    Process process(run, out);
    wait_for_lines(run, process, out, 3);
    process.signal(signal);
    CHECK(process.wait() == code);
    CHECK(run.bytes(out + ".log").find("go on with --resume auto") != std::string::npos);
    REQUIRE(Process(run, out).wait() == 0);
    check_undisturbed(run, out);
  }
}
