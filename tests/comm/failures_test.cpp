// Whatever goes wrong among ranks ends in an error that says what, never in a hang.
#include <doctest/doctest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <latch>
#include <string>
#include <vector>

#include "registry/component.h"
#include "registry/error.h"
#include "tests/comm/world_conformance.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

// Runs and returns the error's text ("" if none), checking its exit code.
std::string failure(int ranks, const std::function<void(Rank&)>& body, int timeout = 60) {
  const auto world =
      Component<World>("inproc").make({.ranks = ranks, .timeout = std::chrono::seconds(timeout)});
  try {
    world->run(body);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::communication);
    return error.what();
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  MESSAGE("not in: " << text);
  return false;
}

Tensor numbers(Index n) { return Backend::cpu()->zeros(DType::f32, {n}); }

}  // namespace

TEST_CASE("an expired wait names the operation, the group, the sizes and who is missing") {
  std::vector<std::string> texts(3);
  std::latch entered(2), expired(2);
  const std::string first = failure(
      3,
      [&](Rank& rank) {
        const auto everyone = rank.everyone();
        if (rank.rank() == 1) return expired.wait();
        Pending sum = everyone->all_reduce(numbers(5));
        entered.arrive_and_wait();
        try {
          sum.wait();
        } catch (const std::exception& error) {
          texts[static_cast<std::size_t>(rank.rank())] = error.what();
          expired.count_down();
          throw;
        }
      },
      1);
  for (const std::string& text : {first, texts[0], texts[2]})
    CHECK(contains(text, "all_reduce sum of f32 [5] in group 'world' of 3 ranks for rank 1"));
  CHECK(contains(first, "since 1 s"));
}

TEST_CASE("a rank that throws ends the others' waits, and its error is the run's") {
  const auto world = Component<World>("inproc").make({.ranks = 4});
  std::vector<std::string> texts(4);
  CHECK_THROWS_WITH_AS(world->run([&](Rank& rank) {
    const auto everyone = rank.everyone();
    everyone->barrier();
    if (rank.rank() == 2) throw Error(ExitCode::data, "no more text");
    try {
      everyone->all_reduce(numbers(2)).wait();
    } catch (const std::exception& error) {
      texts[static_cast<std::size_t>(rank.rank())] = error.what();
      throw;
    }
  }),
                       "no more text", Error);
  for (const std::size_t other : {0U, 1U, 3U}) {  // neither "since 600 s" nor nothing
    const bool ended = contains(texts[other], "no more text") ||
                       contains(texts[other], "a rank has ended without it");
    CHECK(ended);
  }
}

TEST_CASE("a rank that throws with collectives in flight leaves no reader behind") {
  for (int round = 0; round < 50; ++round) {
    const auto world = Component<World>("inproc").make({.ranks = 4});
    CHECK_THROWS_WITH_AS(world->run([round](Rank& rank) {
      const auto everyone = rank.everyone();
      const Tensor t = numbers(2000);
      const Pending one = everyone->all_reduce(t);
      const Pending two = everyone->all_reduce(numbers(10));
      if (rank.rank() == round % 4) throw Error(ExitCode::data, "stop");
    }),
                         "stop", Error);
  }
}

TEST_CASE("a rank that ends early is noticed") {
  CHECK(contains(failure(3,
                         [](Rank& rank) {
                           const auto everyone = rank.everyone();
                           if (rank.rank() != 0) everyone->barrier();
                         }),
                 "a rank has ended without it"));
}

TEST_CASE("calls that differ are reported with both") {
  CHECK(contains(failure(2,
                         [](Rank& rank) {
                           const auto everyone = rank.everyone();
                           if (rank.rank() == 0)
                             everyone->barrier();
                           else
                             everyone->all_reduce(numbers(2)).wait();
                         }),
                 "member 0 calls barrier, member 1 calls all_reduce sum of f32 [2]"));
  CHECK(contains(failure(3,
                         [](Rank& rank) {
                           rank.everyone()->all_reduce(numbers(rank.rank() == 2 ? 4 : 3)).wait();
                         }),
                 "member 0 calls all_reduce sum of f32 [3], member 2 calls all_reduce sum of f32 "
                 "[4]"));
  CHECK(contains(failure(2,
                         [](Rank& rank) {
                           rank.everyone()
                               ->all_reduce(numbers(1),
                                            rank.rank() == 0 ? Reduce::sum : Reduce::max)
                               .wait();
                         }),
                 "calls differ"));
  CHECK(contains(
      failure(2, [](Rank& rank) { rank.everyone()->broadcast(numbers(1), rank.rank()).wait(); }),
      "calls differ"));
}

TEST_CASE("exchange counts that disagree are reported with both") {
  CHECK(contains(
      failure(2,
              [](Rank& rank) {
                const std::vector<Index> send{1, 1}, receive{1, rank.rank() == 0 ? 2 : 1};
                rank.everyone()
                    ->all_to_all_v(numbers(2), send, numbers(receive[0] + receive[1]), receive)
                    .wait();
              }),
      "member 1 sends 1 rows to member 0, which expects 2"));
}

TEST_CASE("a call that cannot be right is refused before anyone waits for it") {
  const auto world = Component<World>("inproc").make({.ranks = 2});
  CHECK_THROWS_AS(
      world->run([](Rank& rank) { rank.everyone()->all_gather(numbers(2), numbers(3)).wait(); }),
      InternalError);
  CHECK_THROWS_AS(world->run([](Rank& rank) { rank.group(std::vector<int>{0}, "mine"); }),
                  InternalError);
}
