// What a run shows while it goes: one line in place on a terminal, plain lines elsewhere (seldom
// enough to read), nothing when quiet. NO_COLOR is honoured.
#pragma once
#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace moelab {

struct ProgressStyle {
  bool terminal = false;  // the line is rewritten in place
  bool color = false;
  bool quiet = false;
  std::int64_t every = 1;  // steps between plain lines
};
// For standard error as the process has it: terminal, TERM=dumb, NO_COLOR.
ProgressStyle style_of_stderr();

struct ProgressState {
  std::int64_t step = 0, steps = 0;
  double loss = 0, tokens_per_second = 0;
  double seconds_left = 0;
  double balance = 0;  // largest load max/mean over the layers; 0: no MoE layer
};

class Progress {
 public:
  Progress(std::ostream& out, ProgressStyle style) : out_(out), style_(style) {}
  void update(const ProgressState& state);
  void note(const std::string& text);  // lines of their own; shown when not quiet
  void finish();                       // leaves the last state on a line of its own

 private:
  void print();
  std::ostream& out_;
  ProgressStyle style_;
  ProgressState state_;
  std::chrono::steady_clock::time_point printed_{};
  std::int64_t printed_step_ = -1;
  bool open_ = false;  // a line stands there that the next one rewrites
};

std::string progress_line(const ProgressState& state, bool color);
std::string duration_text(double seconds);  // "1:02:03", "4:05"

// One row a layer, one block character an expert: half height is the mean, full is twice the mean
// or more, a dot is an expert without tokens.
struct LayerLoad {
  std::int64_t layer = 0;
  std::vector<double> tokens_E;
};
std::string load_picture(const std::vector<LayerLoad>& layers);

struct LoadSummary {  // of one layer's counts
  double cv = 0, max_over_mean = 0;
  std::int64_t dead = 0;
};
LoadSummary summarize(const std::vector<double>& tokens_E);

}  // namespace moelab
