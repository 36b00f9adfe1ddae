// Every rank of the group gets all tokens, plans and weights, computes the rows of its experts, and
// returns each result to its token's rank, where a token's rows are summed in choice order: equal
// to `local` to the bit, which a reduce-scatter of partial sums would not be.
#include <algorithm>
#include <numeric>

#include "core/autograd/functions.h"
#include "dispatchers/permutation.h"

namespace moelab {
namespace {

// What all ranks know of each other. Slots are padded to `most_slots` a rank: expert −1.
struct Gathered {
  Index most_tokens = 0, most_slots = 0;
  std::vector<Index> tokens_s;          // by rank
  std::vector<Index> filler_e;          // all ranks', of the local experts
  std::vector<std::int32_t> expert_sP;  // [ranks · most_slots]
  std::vector<std::int32_t> token_sP;
};

struct Layout {
  Index most_tokens = 0, most_slots = 0;
  Ints row_R;      // row of the gathered tokens
  Indices slot_R;  // of the gathered weights
  Indices offset_e1;
  std::shared_ptr<const Ticket> ticket;
};

class AllGather final : public ExchangingDispatcher {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
  };
  AllGather(const Params&, const Context& context) : ExchangingDispatcher("allgather", context) {}

  Dispatched dispatch(Tape& tape, const Variable& x_TH, const RoutingPlan& plan,
                      const Variable& weight_P, const Tokens&) override {
    const auto layout = tape.remember(
        [&] { return std::make_shared<const Layout>(lay_out(tape.backend(), plan, x_TH.value)); });
    const Variable x_SH = gather_ranks(tape, ep_, x_TH, layout->most_tokens);
    const Variable weight_sP = gather_ranks(tape, ep_, weight_P, layout->most_slots);
    return {{x_SH, layout->row_R, layout->offset_e1},
            gather_weights(tape, weight_sP, layout->slot_R),
            layout->ticket};
  }

 private:
  Gathered gather(const Backend& backend, const KeptPairs& pairs, const RoutingPlan& plan) const {
    const Tensor mine = backend.zeros(DType::i64, {2 + experts_});
    mine.data<Index>()[0] = plan.tokens;
    mine.data<Index>()[1] = plan.pairs();
    std::copy(plan.filler_E.begin(), plan.filler_E.end(), mine.data<Index>() + 2);
    const Tensor all = backend.empty(DType::i64, {ep_->size(), 2 + experts_});
    ep_->all_gather(mine, all).wait();

    Gathered out;
    out.filler_e.assign(static_cast<std::size_t>(local_experts()), 0);
    for (Index s = 0; s < ep_->size(); ++s) {
      const Index* const header = all[s].data<Index>();
      out.tokens_s.push_back(header[0]);
      out.most_tokens = std::max(out.most_tokens, header[0]);
      out.most_slots = std::max(out.most_slots, header[1]);
      const Index* const filler = header + 2 + ep_->rank() * local_experts();
      for (std::size_t e = 0; e < out.filler_e.size(); ++e) out.filler_e[e] += filler[e];
    }
    const Tensor pair_2P = backend.empty(DType::i32, {2, out.most_slots});
    const auto slots = pair_2P.span<std::int32_t>();
    std::fill(slots.begin(), slots.end(), -1);
    std::copy(pairs.expert_P.begin(), pairs.expert_P.end(), slots.begin());
    std::copy(pairs.token_P.begin(), pairs.token_P.end(), slots.begin() + out.most_slots);
    const Tensor pair_s2P = backend.empty(DType::i32, {ep_->size(), 2, out.most_slots});
    ep_->all_gather(pair_2P, pair_s2P).wait();
    for (Index s = 0; s < ep_->size(); ++s) {
      const auto both = pair_s2P[s].span<std::int32_t>();
      const auto half = both.begin() + out.most_slots;
      out.expert_sP.insert(out.expert_sP.end(), both.begin(), half);
      out.token_sP.insert(out.token_sP.end(), half, both.end());
    }
    return out;
  }

  Layout lay_out(const Backend& backend, const RoutingPlan& plan, const Tensor& x_TH) const {
    const KeptPairs pairs = kept_pairs(plan);
    const Gathered all = gather(backend, pairs, plan);
    const auto ticket = std::make_shared<Ticket>();
    std::vector<Index> slot_A, arrivals_se;  // this rank's experts' rows, by source rank
    for (std::size_t s = 0; s < ranks(); ++s) {
      const Index first_slot = static_cast<Index>(s) * all.most_slots;
      const SortedSlots theirs =
          sort_by_expert(std::span(all.expert_sP)
                             .subspan(static_cast<std::size_t>(first_slot),
                                      static_cast<std::size_t>(all.most_slots)),
                         ep_->rank() * local_experts(), local_experts());
      for (const Index slot : theirs.slot_S) slot_A.push_back(first_slot + slot);
      arrivals_se.insert(arrivals_se.end(), theirs.count_e.begin(), theirs.count_e.end());
      ticket->back.send.push_back(static_cast<Index>(theirs.slot_S.size()));
      ticket->out.send.push_back(plan.tokens);
      ticket->out.receive.push_back(all.tokens_s[s]);
    }
    const Arrival arrival = arrange(arrivals_se, all.filler_e);

    std::vector<std::int32_t> row_R;
    std::vector<Index> slot_R;
    for (const std::int32_t a : *arrival.arrival_R) {
      const Index slot = a < 0 ? -1 : slot_A[static_cast<std::size_t>(a)];
      const Index first_row = slot < 0 ? -1 : slot / all.most_slots * all.most_tokens;
      slot_R.push_back(slot);
      row_R.push_back(slot < 0 ? -1
                               : static_cast<std::int32_t>(first_row) +
                                     all.token_sP[static_cast<std::size_t>(slot)]);
    }
    take_own(*ticket, pairs);
    ticket->row_A = arrival.row_A;
    ticket->row_bytes = x_TH.size(1) * static_cast<Index>(size_of(x_TH.dtype()));
    return {all.most_tokens,
            all.most_slots,
            std::make_shared<const std::vector<std::int32_t>>(std::move(row_R)),
            std::make_shared<const std::vector<Index>>(std::move(slot_R)),
            arrival.offset_e1,
            ticket};
  }

  // Where this rank's own rows stand when they come back, and how many from each rank.
  void take_own(Ticket& ticket, const KeptPairs& pairs) const {
    const SortedSlots own = sort_by_expert(pairs.expert_P, 0, experts_);
    ticket.back.receive = sum_blocks(own.count_e, ranks());
    ticket.row_of_P = places(own.slot_S, pairs.expert_P.size());
    ticket.offset_T1 = pairs.offset_T1;
  }
};

const Register<Dispatcher, AllGather> registered{
    "allgather", "every rank gets all tokens and computes its experts' rows; few, large messages"};

}  // namespace
}  // namespace moelab
