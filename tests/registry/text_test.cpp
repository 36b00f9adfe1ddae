#include "registry/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace moelab;

TEST_CASE("suggest finds the nearest name and stays silent when none is near") {
  const std::vector<std::string> known{"softmax", "sigmoid", "sqrtsoftplus"};
  CHECK(suggest("softmix", known) == "softmax");
  CHECK(suggest("sig", known) == "sigmoid");
  CHECK(suggest("relu", known) == "");
}

TEST_CASE("NaN has no sign in any text; infinities and zeros keep theirs") {
  const double nan = std::copysign(std::nan(""), -1.0);
  CHECK(str(nan, " ", static_cast<float>(nan)) == "nan nan");
  CHECK(exact(nan) == "nan");
  CHECK(str(-std::numeric_limits<double>::infinity(), " ", -0.0, " ", 2, " ", 'c', " x") ==
        "-inf -0 2 c x");
}

TEST_CASE("exact prints the shortest text that reads back") {
  CHECK(exact(0.1) == "0.1");
  CHECK(std::stod(exact(1.0 / 3.0)) == 1.0 / 3.0);
}
