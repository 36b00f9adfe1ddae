// Runs programs as a user would.
#pragma once
#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "test_paths.h"

namespace moelab::testing {

struct CommandResult {
  int code = -1;
  std::string text;
};

// Goes through the shell: quote what needs it. Standard error is in the text unless the words send
// it elsewhere.
inline CommandResult run_command(const std::string& words) {
  CommandResult result;
  std::FILE* pipe = ::popen((words + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char block[4096];
  while (const std::size_t got = std::fread(block, 1, sizeof block, pipe))
    result.text.append(block, got);
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

// The built binary.
inline CommandResult run_moelab(const std::string& words) {
  return run_command(MOELAB_BINARY_DIR "/moelab " + words);
}

}  // namespace moelab::testing
