// Recorded numbers of other programs. A folder of suites, each with cases.json and, where it has
// tensors, data.safetensors; where they come from stands in each suite's cases.json.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <set>
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

// One case. It notes which of its params and tensors are asked for, so that a case with something
// that its runner does not know cannot pass. All lookups throw std::runtime_error naming what is
// missing.
class GoldenCase {
 public:
  std::string suite, name;
  std::string folder;  // of the suite

  bool given(const std::string& param) const;               // there and not null
  const std::string& text(const std::string& param) const;  // JSON text; strings without quotes
  bool flag(const std::string& param) const;
  double number(const std::string& param) const;
  Index integer(const std::string& param) const;
  // The items of a JSON array; of anything else, itself alone.
  std::vector<std::string> list(const std::string& param) const;
  // The members of a JSON object, under "param." in the names of this case's own params.
  GoldenCase object(const std::string& param) const;

  bool has(const std::string& tensor) const { return tensors_.contains(tensor); }
  const GoldenTensor& tensor(const std::string& key) const;

  // Params and tensors that change nothing which a run could show. A trailing * stands for any end.
  void ignore(const std::vector<std::string>& names) const;
  // What nobody asked for: "param x", "tensor y".
  std::vector<std::string> unread() const;

 private:
  friend std::vector<GoldenCase> read_suite(const std::string& folder);
  const std::string* find(const std::string& param) const;

  class Seen {  // ranks ask as threads
   public:
    void insert(const std::string& name);
    bool contains(const std::string& name) const;

   private:
    mutable std::mutex mutex_;
    std::set<std::string> names_;
  };
  std::string scope_;  // "optimizer." within an object
  std::map<std::string, std::string> params_;
  std::map<std::string, GoldenTensor> tensors_;
  std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
  std::set<std::string> nested_;  // params that are objects: their members are asked for instead
};

// `folder`: of one suite.
std::vector<GoldenCase> read_suite(const std::string& folder);

// Largest |a − b| / largest |b|, or 1 if the sizes differ or a value is not finite. 0 / 0 is 0.
double deviation(const std::vector<double>& a, const std::vector<double>& b);
// What a suite is compared at.
constexpr double golden_tolerance(DType dtype) { return dtype == DType::f64 ? 1e-10 : 1e-5; }

}  // namespace moelab::test
