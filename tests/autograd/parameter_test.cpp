#include "core/autograd/parameter.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/base/threads.h"

using namespace moelab;

TEST_CASE("initial values depend on seed, piece name and index only") {
  const auto backend = Backend::cpu();
  Parameter whole = make_parameter(*backend, DType::f64, "stack", {2, 3, 4}, {}, true);
  whole.init.std = 0.5;
  whole.pieces = {{"expert.0", whole.value[0]}, {"expert.7", whole.value[1]}};
  initialize(whole, 11);
  Parameter alone = make_parameter(*backend, DType::f64, "expert.7", {3, 4}, whole.init, true);
  initialize(alone, 11);
  const Rng rng(11, "init/expert.7");
  for (Index i = 0; i < 12; ++i) {
    CHECK(alone.value.data<double>()[i] == whole.value.data<double>()[12 + i]);
    CHECK(alone.value.data<double>()[i] == 0.5 * rng.normal(static_cast<std::uint64_t>(i)));
  }
  Parameter single = make_parameter(*backend, DType::f32, "expert.7", {3, 4}, whole.init, true);
  initialize(single, 11);
  CHECK(single.value.data<float>()[5] == static_cast<float>(alone.value.data<double>()[5]));
}

TEST_CASE("split finds the parts of a like-shaped tensor") {
  const auto backend = Backend::cpu();
  Parameter p = make_parameter(*backend, DType::f32, "stack", {2, 3}, {}, true);
  p.pieces = {{"a", p.value[1]}, {"b", p.value[0]}};
  const Tensor moment = backend->zeros(DType::f64, {2, 3});
  const auto parts = p.split(moment);
  CHECK(parts[0].raw() == moment[1].raw());
  CHECK(parts[1].raw() == moment[0].raw());
  CHECK(parts[0].shape() == Shape{3});
}

TEST_CASE("zeros and ones") {
  const auto backend = Backend::cpu();
  const Parameter one =
      make_parameter(*backend, DType::f32, "w", {3}, {Init::Kind::ones, 0}, false);
  initialize(one, 1);
  CHECK(one.value.data<float>()[2] == 1.0f);
  const Parameter zero =
      make_parameter(*backend, DType::f32, "b", {3}, {Init::Kind::zeros, 0}, false);
  initialize(zero, 1);
  CHECK(zero.value.data<float>()[2] == 0.0f);
}
