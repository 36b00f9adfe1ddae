// Rows between ranks as differentiable ops. T, S, R rows of any width; every rank of the group
// calls them, with zero rows too, and with the same inputs wanting gradients.
#pragma once
#include <memory>
#include <vector>

#include "core/autograd/tape.h"
#include "core/comm/world.h"

namespace moelab {

struct ExchangeCounts {  // rows to and from each member of the group
  std::vector<Index> send, receive;
};

// Each x is cut into blocks of counts.send rows; the result holds the blocks received, in rank
// order. Backward returns the gradients the same way. All x travel at once. Saves nothing; a
// recomputed segment keeps what it received.
std::vector<Variable> exchange_rows(Tape&, const std::shared_ptr<Group>& group,
                                    const ExchangeCounts& counts, const std::vector<Variable>& x);

// Every rank's rows one after another, each padded with zeros to `most` rows: [size·most, …].
// Backward adds all ranks' gradients of this rank's rows, in rank order.
Variable gather_ranks(Tape&, const std::shared_ptr<Group>& group, const Variable& x_TD, Index most);

}  // namespace moelab
