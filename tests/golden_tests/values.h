// Small arithmetic of the runners on recorded numbers. Megatron's token t is s·B + b (sequence
// position s, batch row b); ours is b·S + s.
#pragma once
#include "tests/golden_tests/suite.h"

namespace moelab::test {

double sum(const Values& v);
Values scaled(Values v, double factor);
Values ones_minus(const Values& v);
// Element i of `parts` equal ones.
Values part(const Values& v, Index parts, Index i);
// Rows of Megatron's [S·B, …] in our order, and back.
Values by_sequence(const Values& v, Index length, Index batch);
Values by_position(const Values& v, Index length, Index batch);
// Rows whose token is padding become 0: Megatron routes padding, we do not.
Values masked(Values v, const Values& valid);

}  // namespace moelab::test
