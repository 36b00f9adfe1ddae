// The two kinds of failure. `Error` is for users: its text names the place, the value, the rule and
// the remedy, and its code becomes the exit code of the process. Broken invariants of our own are
// `InternalError` (core/base/check.h). Nothing else is thrown on purpose.
#pragma once
#include <stdexcept>
#include <string>

namespace moelab {

// The exit codes of every verb; docs/exit_codes.md and --help print this table.
enum class ExitCode : int {
  ok = 0,
  internal = 1,        // a bug of ours
  usage = 2,           // command line or recipe
  data = 3,            // text, tokens, input files
  checkpoint = 4,      // missing, damaged or unfit checkpoints
  numerical = 5,       // non-finite loss or gradient under policy "raise"
  communication = 6,   // a rank failed or a collective timed out
  resources = 7,       // memory, disk, permissions, missing library
  saved_on_term = 75,  // SIGTERM: state saved, run can be resumed
  interrupted = 130,   // Ctrl-C: state saved, run can be resumed
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace moelab
