// The index arithmetic that dispatchers share, and the way back from the experts' ranks.
// T tokens, P pair slots, S kept pairs of this rank sorted by (expert, token), E experts, of which
// this rank holds e; A rows arrived from all ranks in (source rank, expert, token) order; R rows of
// the local experts: arrivals sorted by (expert, source rank, token), then the expert's fillers.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/moe/dispatcher.h"
#include "core/moe/exchange.h"

namespace moelab {

using Ints = std::shared_ptr<const std::vector<std::int32_t>>;
using Indices = std::shared_ptr<const std::vector<Index>>;

struct KeptPairs {
  std::vector<std::int32_t> expert_P;  // −1 where the pair was dropped or absent
  std::vector<std::int32_t> token_P;
  Indices offset_T1;
};
KeptPairs kept_pairs(const RoutingPlan& plan);

struct SortedSlots {
  std::vector<Index> slot_S;
  std::vector<Index> count_e;  // of experts first .. first + e − 1
};
// Slots whose expert lies in [first, first + count), by expert and then by slot.
SortedSlots sort_by_expert(std::span<const std::int32_t> expert_P, Index first, Index count);

// Where each slot stands in `slot_S`: −1 if it does not.
Ints places(std::span<const Index> slot_S, std::size_t slots);
// Sums of `blocks` equal runs of `counts`: rows by rank from rows by expert.
std::vector<Index> sum_blocks(std::span<const Index> counts, std::size_t blocks);

struct Arrival {
  Ints arrival_R;     // −1 for fillers
  Indices offset_e1;  // rows of each local expert
  Ints row_A;
};
// From the number of arrivals by (source rank, local expert) and of fillers by local expert.
Arrival arrange(std::span<const Index> arrivals_se, std::span<const Index> filler_e);

struct Ticket {
  Ints row_of_P;  // place of a slot among the rows that combine sums: S, or R for `local`
  Indices offset_T1;
  Ints row_A;                // null when no row left this rank
  ExchangeCounts out, back;  // rows by member, on the way to the experts and on the way back
  Index row_bytes = 0;
};

// Rows and bytes by member of the expert-parallel group.
std::string describe_exchange(const std::string& name, const Group& ep, const Ticket& ticket);

// Dispatchers that bring rows to other ranks and differ in how. What they dispatch has a Ticket.
class ExchangingDispatcher : public Dispatcher {
 public:
  ExchangingDispatcher(std::string name, const Context& context);
  // Sends the experts' rows back to their tokens' ranks and sums each token's in choice order.
  Variable combine(Tape& tape, const Variable& y_RH, const Dispatched& dispatched) final;
  std::string describe(const Dispatched& dispatched) const final;

 protected:
  std::size_t ranks() const { return static_cast<std::size_t>(ep_->size()); }
  Index local_experts() const { return experts_ / ep_->size(); }

  std::shared_ptr<Group> ep_;
  Index experts_ = 0;

 private:
  std::string name_;
};

}  // namespace moelab
