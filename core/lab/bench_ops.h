// `moelab bench ops`: every op case at its large size, or the ops of a training step at a model's
// shape, forward and backward apart. Each pass is held against the nearer of two limits measured
// around it: the FMA peak for its FLOPs, and for its bytes (each operand once) the bandwidth of
// reading as many bytes again and again, which is a cache's where so much fits into one.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"

namespace moelab {

struct OpBenchOptions {
  std::string filter;             // substring of the case's name; empty: all
  std::string shape;              // of step_ops.h; empty: the op cases
  std::string against;            // figures of another program (peer_figures.h); empty: none
  DType dtype = DType::f32;       // f32 or f64
  double seconds_per_case = 0.3;  // at least three repetitions
};

struct OpBenchRow {
  std::string op;
  const char* pass = "";  // "forward" | "backward"
  DType dtype = DType::f32;
  double ms_median = 0;
  double gflops = 0, gigabytes = 0;            // per second; 0 where the case declares no such work
  double peak_gflops = 0, read_gigabytes = 0;  // the two limits beside it
  double percent_of_limit = 0;                 // of the nearer one
  const char* limit = "";                      // "fma" | "read" | "": no declared work
  int threads = 1;
};

// With threads() of the caller. Throws Error(usage) when the filter matches nothing.
std::vector<OpBenchRow> bench_ops(const OpBenchOptions& options);

// Rows as a table or as JSON lines. Throws Error(data) for the other program's file.
void print_ops(const OpBenchOptions& options, const std::vector<OpBenchRow>& rows, bool json,
               std::ostream& out);

}  // namespace moelab
