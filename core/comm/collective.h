// What a rank asks of its group, as data: compared between ranks, told in errors, and carried out
// by whoever can read the memory of all ranks.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/comm/world.h"

namespace moelab {

struct Call {
  enum class Kind : std::uint8_t {
    all_reduce,
    all_gather,
    reduce_scatter,
    all_to_all_v,
    broadcast,
    barrier,
  };
  Kind kind = Kind::barrier;
  Reduce op = Reduce::sum;
  int root = 0;
  Tensor in, out;  // in place: both are the same tensor
  std::vector<Index> send_counts, receive_counts;

  std::string text() const;  // "all_reduce sum of f32 [3, 4]"
};

// What is wrong with one rank's call on its own: shapes, dtypes, counts. "" when nothing is.
std::string fault(const Call& call, int size);
// How the calls of a group (by rank) contradict each other; "" when they fit. A pure function of
// all calls, so that every rank comes to the same verdict.
std::string mismatch(std::span<const Call> calls);
// Rank `me`'s part: reads the tensors of all ranks and writes what no other rank's part reads or
// writes. When every rank has done its part, the collective is complete.
void perform(std::span<const Call> calls, int me);
// Bytes that rank `me` sends to others (all_reduce counted as reduce-scatter and all-gather).
Index bytes_sent(const Call& call, int me, int size);

}  // namespace moelab
