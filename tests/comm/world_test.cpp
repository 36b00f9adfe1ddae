#include <doctest/doctest.h>

#include <stdexcept>

#include "registry/component.h"
#include "tests/comm/world_conformance.h"

using namespace moelab;

TEST_CASE("the inproc world conforms") {
  const Component<World> inproc("inproc");
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const auto world = inproc.make({.ranks = ranks, .timeout = std::chrono::seconds(60)});
    for (const auto& [name, body] : testing::conformance_cases()) {
      CAPTURE(ranks);
      CAPTURE(name);
      CHECK_NOTHROW(world->run(body));
    }
  }
}

TEST_CASE("hundreds of short collectives on more ranks than cores") {
  const auto world = Component<World>("inproc").make({.ranks = 8});
  CHECK_NOTHROW(world->run([](Rank& rank) {
    const auto backend = Backend::cpu();
    const auto everyone = rank.everyone();
    const Tensor t = testing::tensor<std::int64_t>(*backend, {1}, {0});
    for (int i = 0; i < 300; ++i) {
      t.data<std::int64_t>()[0] += rank.rank() == i % rank.size() ? 1 : 0;
      everyone->all_reduce(t, Reduce::max).wait();
    }
    testing::expect(t.data<std::int64_t>()[0] == 300, "every rank counted in turn");
  }));
}
