// `moelab bench layer`: one MoE layer, forward and forward + backward, against what the processor
// and the library's plain product reach in the same minutes. The router's probabilities are
// computed and timed; the expert ids are given (uniform or Zipf) and drawn anew in each round, so
// that row counts are new at each pass as in training. Work is counted as 6RHF forward and 18RHF
// forward + backward, R = T·k rows, F the width of a gated expert; the router is not counted. A
// shape of few tokens (decoding) is bound by memory: the bytes of its chosen experts' weights are
// held against the read bandwidth measured in the same rounds.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"

namespace moelab {

struct BenchShape {
  std::string name;  // as given: "C2", "2048,512,1024,8,2"
  Index tokens = 0, hidden = 0, width = 0, experts = 0, k = 0;
};
// C1 to C5, C9 (one token: decoding), or "T,H,F,E,k". Throws Error(usage).
BenchShape bench_shape(const std::string& text);

struct BenchLayerOptions {
  std::vector<BenchShape> shapes;
  std::vector<std::string> routings = {"uniform", "zipf"};    // p(expert i) ~ 1/(i+1)
  std::vector<std::string> ways = {"grouped", "sequential"};  // members of the experts family
  DType dtype = DType::f32;
  int threads = 1;
  int rounds = 7;  // ways, peak and plain product interleaved; medians over them
  bool json = false;
  std::string against;  // figures of another program (peer_figures.h); "": none
};

// A table, or JSON lines (shape routing dtype way pass ms_median gflops percent_of_peak
// weight_gigabytes_s percent_of_read threads, and the milliseconds of each stage). Throws
// Error(usage) for an unknown routing or way, Error(data) for the other program's file.
void bench_layer(const BenchLayerOptions& options, std::ostream& out);

}  // namespace moelab
