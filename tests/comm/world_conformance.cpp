#include "tests/comm/world_conformance.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace moelab::testing {
namespace {

const Backend& cpu() {
  static const std::shared_ptr<Backend> backend = Backend::cpu();
  return *backend;
}

// Values whose sum depends on the order of addition.
template <class T>
T awkward(int rank, Index i) {
  const T scale[] = {T(1), T(1e7), T(-1e7), T(3e-4)};
  return scale[(rank + i) % 4] + static_cast<T>(rank) / static_cast<T>(3 + i % 7);
}

template <class T>
void all_reduce_is_the_sum_in_rank_order(Rank& rank) {
  const auto everyone = rank.everyone();
  for (const Index n : {0, 1, 3, 1000, 5003}) {
    std::vector<T> mine, sum, most;
    for (Index i = 0; i < n; ++i) {
      mine.push_back(awkward<T>(rank.rank(), i));
      T total = awkward<T>(0, i), largest = total;
      for (int r = 1; r < rank.size(); ++r) {
        total = static_cast<T>(total + awkward<T>(r, i));
        largest = std::max(largest, awkward<T>(r, i));
      }
      sum.push_back(total);
      most.push_back(largest);
    }
    const Tensor a = tensor(cpu(), {n}, mine), b = tensor(cpu(), {n}, mine);
    everyone->all_reduce(a).wait();
    everyone->all_reduce(b, Reduce::max).wait();
    expect(values<T>(a) == sum, "the sum in rank order, to the bit");
    expect(values<T>(b) == most, "the maximum");
  }
}

void integers_reduce_exactly(Rank& rank) {
  const auto everyone = rank.everyone();
  const std::int64_t big = std::int64_t{1} << 60;
  const Tensor a = tensor<std::int64_t>(cpu(), {2}, {big + rank.rank(), rank.rank()});
  const Tensor b = tensor<std::int32_t>(cpu(), {1}, {7 - rank.rank()});
  everyone->all_reduce(a, Reduce::max).wait();
  everyone->all_reduce(b).wait();
  const int n = rank.size();
  expect(values<std::int64_t>(a) == std::vector<std::int64_t>{big + n - 1, n - 1}, "i64 max");
  expect(values<std::int32_t>(b) == std::vector<std::int32_t>{7 * n - n * (n - 1) / 2}, "i32 sum");
}

void gather_and_scatter(Rank& rank) {
  const auto everyone = rank.everyone();
  const int n = rank.size();
  const Tensor in = tensor<double>(cpu(), {2}, {10.0 * rank.rank(), 10.0 * rank.rank() + 1});
  const Tensor out = cpu().empty(DType::f64, {n, 2});
  everyone->all_gather(in, out).wait();
  std::vector<double> every;
  for (int r = 0; r < n; ++r) every.insert(every.end(), {10.0 * r, 10.0 * r + 1});
  expect(values<double>(out) == every, "all ranks' values in rank order");

  const Tensor part = cpu().empty(DType::f64, {1, 2});
  everyone->reduce_scatter(out, part).wait();
  const double mine = 10.0 * rank.rank() * n;
  expect(values<double>(part) == std::vector<double>{mine, mine + n}, "the sum of my block");

  const Tensor none = cpu().empty(DType::f64, {0, 2});
  everyone->all_gather(none, none).wait();
  everyone->reduce_scatter(none, none).wait();
}

// Rank s sends (s + r) % 3 rows to rank r; row values name source, destination and place.
void ragged_exchange(Rank& rank) {
  const auto everyone = rank.everyone();
  const int n = rank.size(), me = rank.rank();
  const auto rows = [](int s, int r) { return Index{(s + r) % 3}; };
  std::vector<Index> sent, received;
  std::vector<float> out, expected;
  for (int r = 0; r < n; ++r) {
    sent.push_back(rows(me, r));
    received.push_back(rows(r, me));
    for (Index i = 0; i < rows(me, r); ++i)
      out.insert(out.end(), {static_cast<float>(me), static_cast<float>(r * 10 + i)});
    for (Index i = 0; i < rows(r, me); ++i)
      expected.insert(expected.end(), {static_cast<float>(r), static_cast<float>(me * 10 + i)});
  }
  const Tensor send = tensor(cpu(), {static_cast<Index>(out.size()) / 2, 2}, out);
  const Tensor receive = cpu().empty(DType::f32, {static_cast<Index>(expected.size()) / 2, 2});
  everyone->all_to_all_v(send, sent, receive, received).wait();
  expect(values<float>(receive) == expected, "rows in source order");

  const std::vector<Index> zero(static_cast<std::size_t>(n), 0);
  const Tensor none = cpu().empty(DType::f32, {0, 2});
  everyone->all_to_all_v(none, zero, none, zero).wait();
}

void broadcast_from_every_root(Rank& rank) {
  const auto everyone = rank.everyone();
  for (int root = 0; root < rank.size(); ++root) {
    const Tensor t = tensor<std::int32_t>(cpu(), {2}, {rank.rank(), root});
    everyone->broadcast(t, root).wait();
    expect(values<std::int32_t>(t) == std::vector<std::int32_t>{root, root}, "the root's values");
  }
}

void several_in_flight(Rank& rank) {
  const auto everyone = rank.everyone();
  const int n = rank.size();
  const Tensor a = tensor<double>(cpu(), {1}, {1.0});
  const Tensor b = tensor<double>(cpu(), {1}, {2.0});
  const Tensor c = cpu().empty(DType::f64, {n});
  Pending first = everyone->all_reduce(a);
  Pending second = everyone->all_reduce(b);
  Pending third = everyone->all_gather(tensor<double>(cpu(), {1}, {rank.rank() + 0.5}), c);
  third.wait();
  first.wait();
  second.wait();
  expect(a.data<double>()[0] == n && b.data<double>()[0] == 2 * n, "both sums");
  for (int r = 0; r < n; ++r) expect(c.data<double>()[r] == r + 0.5, "gathered");
}

void groups_wait_in_different_orders(Rank& rank) {
  const auto one = rank.everyone(), two = rank.everyone();
  const Tensor a = tensor<double>(cpu(), {1}, {1.0}), b = tensor<double>(cpu(), {1}, {1.0});
  Pending on_one = one->all_reduce(a), on_two = two->all_reduce(b);
  if (rank.rank() % 2 == 0) {
    on_one.wait();
    on_two.wait();
  } else {
    on_two.wait();
    on_one.wait();
  }
  expect(a.data<double>()[0] == rank.size() && b.data<double>()[0] == rank.size(), "sums");
}

void subsets_do_not_disturb_each_other(Rank& rank) {
  std::vector<int> half;
  for (int r = rank.rank() % 2; r < rank.size(); r += 2) half.push_back(r);
  std::reverse(half.begin(), half.end());
  const auto group = rank.group(half, "half");
  expect(half[static_cast<std::size_t>(group->rank())] == rank.rank(), "order of the group");
  for (int round = 0; round < 20; ++round) {
    const Tensor t = tensor<std::int64_t>(cpu(), {1}, {rank.rank() + round});
    group->all_reduce(t).wait();
    const std::int64_t sum = std::accumulate(half.begin(), half.end(), std::int64_t{0});
    expect(t.data<std::int64_t>()[0] == sum + round * group->size(), "the half's sum");
  }
  rank.everyone()->barrier();
}

void traffic_is_counted(Rank& rank) {
  const auto everyone = rank.everyone();
  const Tensor in = tensor<float>(cpu(), {3}, {1, 2, 3});
  const Tensor out = cpu().empty(DType::f32, {3 * rank.size()});
  everyone->all_gather(in, out).wait();
  everyone->barrier();
  const Traffic traffic = everyone->traffic();
  expect(traffic.calls == 2, "two calls");
  expect(traffic.bytes == 12 * (rank.size() - 1), "12 bytes to each other rank");
  expect(traffic.wait_seconds >= 0, "time");
}

}  // namespace

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("expected: " + what);
}

const std::vector<ConformanceCase>& conformance_cases() {
  static const std::vector<ConformanceCase> cases{
      {"all_reduce f32", all_reduce_is_the_sum_in_rank_order<float>},
      {"all_reduce f64", all_reduce_is_the_sum_in_rank_order<double>},
      {"all_reduce integers", integers_reduce_exactly},
      {"all_gather and reduce_scatter", gather_and_scatter},
      {"all_to_all_v", ragged_exchange},
      {"broadcast", broadcast_from_every_root},
      {"several in flight", several_in_flight},
      {"waits in different orders", groups_wait_in_different_orders},
      {"subsets", subsets_do_not_disturb_each_other},
      {"traffic", traffic_is_counted},
  };
  return cases;
}

}  // namespace moelab::testing
