// What a step of training asks of the arena.
#include <doctest/doctest.h>

#include "core/train/step.h"
#include "tests/train/tiny_run.h"

using namespace moelab;
using moelab::testing::TinyRun;

TEST_CASE("once warm, a step asks the system for no memory, on any number of threads") {
  const TinyRun run;
  Report report;
  const RunConfig config = load_run_config(run.recipe(), {}, report);
  const Corpus corpus = make_corpus(config);
  for (const int count : {1, 2, 5}) {
    CAPTURE(count);
    run_ranks(config, count, [&](Rank& rank) {
      const Session session(config, corpus, rank);
      const auto step = [&](Index at) {
        forward_backward(session, StepBatch(session, config, *corpus.dataset, at), at);
      };
      for (Index at = 0; at < 3; ++at) step(at);
      const ArenaCounters warm = session.ranks.backend->arena().counters();
      for (Index at = 3; at < 15; ++at) step(at);  // every batch is routed otherwise
      const ArenaCounters end = session.ranks.backend->arena().counters();
      CHECK(end.system_allocations == warm.system_allocations);
      CHECK(end.live_bytes == warm.live_bytes);
    });
  }
}
