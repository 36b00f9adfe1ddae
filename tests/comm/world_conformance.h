// What every world must do, whoever carries its ranks. A failed expectation throws in the rank, so
// that the suite works for ranks that are threads and for ranks that are processes.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/comm/world.h"

namespace moelab::testing {

void expect(bool holds, const std::string& what);

template <class T>
Tensor tensor(const Backend& backend, Shape shape, const std::vector<T>& values) {
  const Tensor t = backend.empty(DTypeOf<T>::value, shape);
  expect(values.size() == static_cast<std::size_t>(t.numel()), "the test's own values");
  std::copy(values.begin(), values.end(), t.data<T>());
  return t;
}
template <class T>
std::vector<T> values(const Tensor& t) {
  return {t.data<T>(), t.data<T>() + t.numel()};
}

struct ConformanceCase {
  std::string name;
  std::function<void(Rank&)> body;
};
const std::vector<ConformanceCase>& conformance_cases();

}  // namespace moelab::testing
