#include "tests/golden_tests/values.h"

#include <algorithm>
#include <numeric>

namespace moelab::test {
namespace {

Values reordered(const Values& v, Index length, Index batch, bool to_ours) {
  const Index width = static_cast<Index>(v.size()) / (length * batch);
  Values out(v.size());
  for (Index s = 0; s < length; ++s)
    for (Index b = 0; b < batch; ++b) {
      const Index theirs = (s * batch + b) * width, ours = (b * length + s) * width;
      std::copy_n(v.begin() + (to_ours ? theirs : ours), width,
                  out.begin() + (to_ours ? ours : theirs));
    }
  return out;
}

}  // namespace

double sum(const Values& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

Values scaled(Values v, double factor) {
  for (double& x : v) x *= factor;
  return v;
}

Values ones_minus(const Values& v) {
  Values out;
  for (const double x : v) out.push_back(1 - x);
  return out;
}

Values part(const Values& v, Index parts, Index i) {
  const auto size = static_cast<std::ptrdiff_t>(v.size()) / parts;
  return {v.begin() + i * size, v.begin() + (i + 1) * size};
}

Values by_sequence(const Values& v, Index length, Index batch) {
  return reordered(v, length, batch, true);
}
Values by_position(const Values& v, Index length, Index batch) {
  return reordered(v, length, batch, false);
}

Values masked(Values v, const Values& valid) {
  const std::size_t width = v.size() / valid.size();
  for (std::size_t i = 0; i < v.size(); ++i) v[i] *= valid[i / width];
  return v;
}

}  // namespace moelab::test
