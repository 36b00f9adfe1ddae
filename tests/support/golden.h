// Recorded numbers of other programs: tests/golden/<suite>/{cases.json, data.safetensors}. Where
// they come from stands in each suite's cases.json.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "core/tensor/dtype.h"

namespace moelab::test {

struct GoldenTensor {
  std::vector<Index> shape;
  std::vector<double> values;  // of any dtype; all of them are exact as doubles
  Index size(std::size_t axis) const { return shape.at(axis); }
};

struct GoldenCase {
  std::string name;
  std::map<std::string, std::string> params;  // as JSON text; strings without quotes
  std::map<std::string, GoldenTensor> tensors;

  bool has(const std::string& tensor) const { return tensors.contains(tensor); }
  const GoldenTensor& tensor(const std::string& key) const { return tensors.at(key); }
  bool given(const std::string& param) const;  // there and not null
  const std::string& text(const std::string& param) const { return params.at(param); }
  bool flag(const std::string& param) const { return params.at(param) == "true"; }
  double number(const std::string& param) const { return std::stod(params.at(param)); }
  Index integer(const std::string& param) const { return std::stoll(params.at(param)); }
};

std::vector<GoldenCase> read_golden(const std::string& suite);

// Largest |a − b| / largest |b|, or 1 if the sizes differ. 0 / 0 is 0.
double deviation(const std::vector<double>& a, const std::vector<double>& b);
// What a suite is compared at.
constexpr double golden_tolerance(DType dtype) { return dtype == DType::f64 ? 1e-10 : 1e-5; }

}  // namespace moelab::test
