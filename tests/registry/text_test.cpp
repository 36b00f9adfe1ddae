#include "registry/text.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace moelab;

TEST_CASE("suggest finds the nearest name and stays silent when none is near") {
  const std::vector<std::string> known{"softmax", "sigmoid", "sqrtsoftplus"};
  CHECK(suggest("softmix", known) == "softmax");
  CHECK(suggest("sig", known) == "sigmoid");
  CHECK(suggest("relu", known) == "");
}

TEST_CASE("exact prints the shortest text that reads back") {
  CHECK(exact(0.1) == "0.1");
  CHECK(std::stod(exact(1.0 / 3.0)) == 1.0 / 3.0);
}
