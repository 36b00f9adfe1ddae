// Every registered op case, through every check that follows from its declaration.
#include <doctest/doctest.h>

#include "core/lab/op_checks.h"
#include "tests/support/tolerance.h"

using namespace moelab;

TEST_CASE("op cases: gradients equal central differences in f64") {
  for (const OpCase& op : op_cases()) {
    const OpError error = check_finite_differences(op);
    INFO(op.name, ": ", error.where);
    CHECK(error.worst < kFiniteDifferenceTolerance);
  }
}

TEST_CASE("op cases: f32 equals f64 within f32's precision") {
  for (const OpCase& op : op_cases()) {
    const OpError error = check_precision(op);
    INFO(op.name, ": ", error.where);
    CHECK(error.worst < tolerance(DType::f32).exact);
  }
}

TEST_CASE("op cases: a gradient is added to one that exists") {
  for (const OpCase& op : op_cases()) {
    const OpError error = check_accumulation(op);
    INFO(op.name, ": ", error.where);
    CHECK(error.worst < tolerance(DType::f64).reordered);
  }
}

TEST_CASE("op cases: 1, 2 and 4 threads give the same bits") {
  for (const OpCase& op : op_cases()) {
    INFO(op.name);
    CHECK(check_thread_equality(op, DType::f32, OpSize::large) == "");
    CHECK(check_thread_equality(op, DType::f64, OpSize::small) == "");
  }
}

TEST_CASE("op cases: backward keeps exactly what the case declares") {
  for (const OpCase& op : op_cases()) {
    const Index declared = op.instance(OpSize::small).saved_elements;
    INFO(op.name);
    if (declared >= 0)
      CHECK(measure_saved_bytes(op) == static_cast<std::size_t>(declared) * sizeof(double));
  }
}

TEST_CASE("op cases exist and have different names") {
  CHECK(op_cases().size() > 0);
  for (std::size_t i = 1; i < op_cases().size(); ++i)
    CHECK(op_cases()[i - 1].name < op_cases()[i].name);
}
