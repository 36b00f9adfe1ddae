// All experts are here: rows are a view of the tokens, and nothing moves.
#include "core/autograd/functions.h"
#include "dispatchers/permutation.h"

namespace moelab {
namespace {

class Local final : public Dispatcher {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
    void check(const Facts& facts, Checker& c) const {
      if (facts.ep > 1)
        c.error("type", "keeps all experts on one rank, but parallel.ep is ", facts.ep,
                "; use alltoall or allgather");
    }
    Traits traits() const { return {.needs_single_rank = true}; }
  };
  Local(const Params&, const Context& context) : experts_(context.experts) {}

  Dispatched dispatch(Tape& tape, const Variable& x_TH, const RoutingPlan& plan,
                      const Variable& weight_P, const Tokens&) override {
    const KeptPairs pairs = kept_pairs(plan);
    const SortedSlots sorted = sort_by_expert(pairs.expert_P, 0, experts_);
    std::vector<std::int32_t> row_R, row_of_P(pairs.expert_P.size(), -1);
    std::vector<Index> slot_R, offset_e1{0};
    std::size_t next = 0;
    for (std::size_t e = 0; e < sorted.count_e.size(); ++e) {
      for (Index i = 0; i < sorted.count_e[e]; ++i, ++next) {
        const auto slot = static_cast<std::size_t>(sorted.slot_S[next]);
        row_of_P[slot] = static_cast<std::int32_t>(row_R.size());
        row_R.push_back(pairs.token_P[slot]);
        slot_R.push_back(sorted.slot_S[next]);
      }
      const Index fillers = plan.filler_E.empty() ? 0 : plan.filler_E[e];
      row_R.resize(row_R.size() + static_cast<std::size_t>(fillers), -1);
      slot_R.resize(row_R.size(), -1);
      offset_e1.push_back(static_cast<Index>(row_R.size()));
    }
    const auto ticket = std::make_shared<Ticket>();
    ticket->row_of_P = std::make_shared<const std::vector<std::int32_t>>(std::move(row_of_P));
    ticket->offset_T1 = pairs.offset_T1;
    return {{x_TH, std::make_shared<const std::vector<std::int32_t>>(std::move(row_R)),
             std::make_shared<const std::vector<Index>>(std::move(offset_e1))},
            gather_weights(tape, weight_P,
                           std::make_shared<const std::vector<Index>>(std::move(slot_R))),
            ticket};
  }

  Variable combine(Tape& tape, const Variable& y_RH, const Dispatched& dispatched) override {
    const auto& ticket = *static_cast<const Ticket*>(dispatched.ticket.get());
    return combine_rows(tape, y_RH, ticket.row_of_P, ticket.offset_T1);
  }

  std::string describe(const Dispatched& dispatched) const override {
    return str("local: ", dispatched.rows.rows(), " rows, none leaves this rank\n");
  }

 private:
  Index experts_;
};

const Register<Dispatcher, Local> registered{
    "local", "every rank holds all experts: rows are read where they are, nothing is sent"};

}  // namespace
}  // namespace moelab
