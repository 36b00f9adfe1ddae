// Suites whose subject does not exist yet.
#include "tests/golden_tests/suite.h"

namespace moelab::test {
namespace {

Outcome topology(const GoldenCase&) {
  return Outcome::not_yet("process groups of other frameworks' rank orders");
}

const RegisterSuite megatron{"topology_megatron", topology};
const RegisterSuite deepspeed{"topology_deepspeed", topology};

}  // namespace
}  // namespace moelab::test
