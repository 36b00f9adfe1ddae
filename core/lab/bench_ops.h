// `moelab bench ops`: every op case at its large size, forward and backward apart.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"

namespace moelab {

struct OpBenchOptions {
  std::string filter;             // substring of the case's name; empty: all
  DType dtype = DType::f32;       // f32 or f64
  double seconds_per_case = 0.3;  // at least three repetitions
};

struct OpBenchRow {
  std::string op;
  const char* pass = "";  // "forward" | "backward"
  DType dtype = DType::f32;
  double ms_median = 0;
  double gflops = 0, gigabytes = 0;  // per second; 0 where the case declares no such work
  int threads = 1;
};

// With threads() of the caller. Throws Error(usage) when the filter matches nothing.
std::vector<OpBenchRow> bench_ops(const OpBenchOptions& options);

void print_table(std::ostream& out, const std::vector<OpBenchRow>& rows);
void print_json_lines(std::ostream& out, const std::vector<OpBenchRow>& rows);

}  // namespace moelab
