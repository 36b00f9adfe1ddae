// The folder that a run leaves: recipe.toml (resolved), environment.json, metrics.jsonl,
// checkpoints/, report.txt, summary.json. One process at a time writes into it.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "core/checkpoint/store.h"

namespace moelab {

class RunFolder {
 public:
  // Creates and locks the folder. Throws Error(usage) when another process writes into it, and
  // Error(resources) when it cannot be made. A folder into which nothing was written goes away
  // with the object.
  explicit RunFolder(std::string path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string checkpoints() const { return file("checkpoints"); }
  bool holds_run() const;  // something was trained here before
  void write(const std::string& name, const std::string& text) const;
  // Lets runs/latest in the current folder point here. Returns why not, "" if it does.
  std::string link_latest() const;

 private:
  void lock();
  std::string path_;
  std::vector<std::string> made_;  // folders that were not there before, the innermost first
  int lock_ = -1;
};

// Where a run goes without --out: `preferred` (run.folder) or runs/<stem of the recipe>. A fresh
// run takes the first of name, name-2, name-3 … that holds no run, a resumed one the last that
// does.
std::string default_run_folder(const std::string& recipe, const std::string& preferred,
                               bool resumes);

// The checkpoint at `path`: a checkpoint's folder, or a run's folder, whose newest whole one is
// taken. Throws Error(checkpoint).
Checkpoint find_checkpoint(const std::string& path, std::ostream& warnings);

// What --init names: a run's folder becomes the weights of its newest whole checkpoint, whatever
// else exists stays. Throws Error(checkpoint).
std::string find_weights(const std::string& path, std::ostream& warnings);

// The run's folder that such a path lies in; "" if it is a checkpoint on its own.
std::string run_of(const std::string& path);

// The program, the machine and the process, as JSON.
std::string environment_json(int threads, Index ranks);

}  // namespace moelab
