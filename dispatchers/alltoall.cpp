// Each kept row travels to the rank that holds its expert, and its result back: one exchange of
// counts, one of rows and weights, one of results. Arrivals come in rank order and ranks hold
// consecutive rows of the batch, so that an expert's rows are in global token order.
#include "core/autograd/functions.h"
#include "dispatchers/permutation.h"

namespace moelab {
namespace {

struct Layout {
  Ints token_S;
  Indices slot_S, arrival_R;
  Arrival arrival;
  std::shared_ptr<const Ticket> ticket;
};

class AllToAll final : public ExchangingDispatcher {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
  };
  AllToAll(const Params&, const Context& context) : ExchangingDispatcher("alltoall", context) {}

  Dispatched dispatch(Tape& tape, const Variable& x_TH, const RoutingPlan& plan,
                      const Variable& weight_P, const Tokens&) override {
    const auto layout = tape.remember(
        [&] { return std::make_shared<const Layout>(lay_out(tape.backend(), plan, x_TH.value)); });
    const Variable x_SH = gather_rows(tape, x_TH, layout->token_S);
    const Variable weight_S = gather_weights(tape, weight_P, layout->slot_S);
    const auto arrived = exchange_rows(tape, ep_, layout->ticket->out, {x_SH, weight_S});
    return {{arrived[0], layout->arrival.arrival_R, layout->arrival.offset_e1},
            gather_weights(tape, arrived[1], layout->arrival_R),
            layout->ticket};
  }

 private:
  Layout lay_out(const Backend& backend, const RoutingPlan& plan, const Tensor& x_TH) const {
    const KeptPairs pairs = kept_pairs(plan);
    SortedSlots sorted = sort_by_expert(pairs.expert_P, 0, experts_);
    std::vector<std::int32_t> token_S;
    for (const Index slot : sorted.slot_S)
      token_S.push_back(pairs.token_P[static_cast<std::size_t>(slot)]);
    const auto [arrivals_se, filler_e] = exchange_counts(backend, sorted.count_e, plan.filler_E);
    Arrival arrival = arrange(arrivals_se, filler_e);

    const auto ticket = std::make_shared<Ticket>();
    ticket->out = {sum_blocks(sorted.count_e, ranks()), sum_blocks(arrivals_se, ranks())};
    ticket->back = {ticket->out.receive, ticket->out.send};
    ticket->row_of_P = places(sorted.slot_S, pairs.expert_P.size());
    ticket->offset_T1 = pairs.offset_T1;
    ticket->row_A = arrival.row_A;
    ticket->row_bytes = x_TH.size(1) * static_cast<Index>(size_of(x_TH.dtype()));
    auto arrival_R = std::make_shared<const std::vector<Index>>(arrival.arrival_R->begin(),
                                                                arrival.arrival_R->end());
    return {std::make_shared<const std::vector<std::int32_t>>(std::move(token_S)),
            std::make_shared<const std::vector<Index>>(std::move(sorted.slot_S)),
            std::move(arrival_R), std::move(arrival), ticket};
  }

  struct Arriving {
    std::vector<Index> arrivals_se, filler_e;
  };
  // Tells each rank how many rows and fillers its experts get from here.
  Arriving exchange_counts(const Backend& backend, const std::vector<Index>& count_E,
                           const std::vector<Index>& filler_E) const {
    const Index local = local_experts();
    const Tensor mine_E2 = backend.empty(DType::i64, {experts_, 2});
    const Tensor theirs_se2 = backend.empty(DType::i64, {experts_, 2});
    for (std::size_t e = 0; e < count_E.size(); ++e) {
      mine_E2.data<Index>()[2 * e] = count_E[e];
      mine_E2.data<Index>()[2 * e + 1] = filler_E.empty() ? 0 : filler_E[e];
    }
    const std::vector<Index> blocks(ranks(), local);
    ep_->all_to_all_v(mine_E2, blocks, theirs_se2, blocks).wait();
    Arriving out{{}, std::vector<Index>(static_cast<std::size_t>(local), 0)};
    for (std::size_t se = 0; se < count_E.size(); ++se) {
      out.arrivals_se.push_back(theirs_se2.data<Index>()[2 * se]);
      out.filler_e[se % out.filler_e.size()] += theirs_se2.data<Index>()[2 * se + 1];
    }
    return out;
  }
};

const Register<Dispatcher, AllToAll> registered{
    "alltoall", "rows travel to the ranks of their experts and back; sends only what is needed"};

}  // namespace
}  // namespace moelab
