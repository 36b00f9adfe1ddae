#include "core/tensor/tensor.h"

#include <doctest/doctest.h>

#include "core/backend/backend.h"
#include "registry/error.h"

using namespace moelab;

TEST_CASE("views and rows share the elements") {
  const auto backend = Backend::cpu();
  const Tensor t = backend->zeros(DType::i64, {4, 2, 3});
  for (Index i = 0; i < t.numel(); ++i) t.data<std::int64_t>()[i] = i;
  CHECK(t.shape().text() == "[4, 2, 3]");
  const Tensor rows = t.rows(1, 2);
  CHECK(rows.shape() == Shape{2, 2, 3});
  CHECK(rows.data<std::int64_t>()[0] == 6);
  CHECK(t[3].shape() == Shape{2, 3});
  CHECK(t[3][1].data<std::int64_t>()[2] == 23);
  CHECK(t.view({24})[5].shape() == Shape{});
  CHECK(*t.view({24})[5].data<std::int64_t>() == 5);
  CHECK(t.rows(4, 0).numel() == 0);
}

TEST_CASE("wrong types, shapes and ranges are our own bugs, told with the values") {
  const auto backend = Backend::cpu();
  const Tensor t = backend->zeros(DType::f32, {2, 3});
  CHECK_THROWS_WITH_AS(t.data<double>(), doctest::Contains("asked for f64 of a f32 tensor [2, 3]"),
                       InternalError);
  CHECK_THROWS_AS(t.view({5}), InternalError);
  CHECK_THROWS_AS(t.rows(1, 2), InternalError);
  CHECK_THROWS_AS(t[2], InternalError);
  CHECK_THROWS_AS((Shape{1, -1}), InternalError);
}

TEST_CASE("only the CPU can be asked to run; other devices say what is missing") {
  CHECK(Backend::create("cpu") != nullptr);
  CHECK_THROWS_WITH_AS(Backend::create("cuda"), doctest::Contains("libmoelab_cuda.so"), Error);
  CHECK_THROWS_WITH_AS(Backend::create("tpu"), doctest::Contains("'tpu' is not one of"), Error);
}
