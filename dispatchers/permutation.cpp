#include "dispatchers/permutation.h"

#include <iomanip>
#include <numeric>
#include <sstream>

#include "core/autograd/functions.h"

namespace moelab {

KeptPairs kept_pairs(const RoutingPlan& plan) {
  KeptPairs out;
  std::vector<Index> offset_T1;
  for (Index t = 0; t < plan.tokens; ++t) {
    offset_T1.push_back(plan.begin(t));
    for (Index p = plan.begin(t); p < plan.end(t); ++p) {
      const auto at = static_cast<std::size_t>(p);
      out.expert_P.push_back(plan.fate_P[at] == PairFate::kept ? plan.expert_P[at] : -1);
      out.token_P.push_back(static_cast<std::int32_t>(t));
    }
  }
  offset_T1.push_back(plan.pairs());
  out.offset_T1 = std::make_shared<const std::vector<Index>>(std::move(offset_T1));
  return out;
}

SortedSlots sort_by_expert(std::span<const std::int32_t> expert_P, Index first, Index count) {
  SortedSlots out;
  out.count_e.assign(static_cast<std::size_t>(count), 0);
  const auto local = [&](std::int32_t expert) -> std::ptrdiff_t {
    const Index at = expert - first;
    return expert >= 0 && at >= 0 && at < count ? at : -1;
  };
  for (const std::int32_t expert : expert_P)
    if (const auto at = local(expert); at >= 0) ++out.count_e[static_cast<std::size_t>(at)];
  std::vector<Index> next(out.count_e.size());
  std::exclusive_scan(out.count_e.begin(), out.count_e.end(), next.begin(), Index{0});
  out.slot_S.resize(
      static_cast<std::size_t>(std::accumulate(out.count_e.begin(), out.count_e.end(), Index{0})));
  for (std::size_t p = 0; p < expert_P.size(); ++p)
    if (const auto at = local(expert_P[p]); at >= 0)
      out.slot_S[static_cast<std::size_t>(next[static_cast<std::size_t>(at)]++)] =
          static_cast<Index>(p);
  return out;
}

Ints places(std::span<const Index> slot_S, std::size_t slots) {
  std::vector<std::int32_t> out(slots, -1);
  for (std::size_t i = 0; i < slot_S.size(); ++i)
    out[static_cast<std::size_t>(slot_S[i])] = static_cast<std::int32_t>(i);
  return std::make_shared<const std::vector<std::int32_t>>(std::move(out));
}

std::vector<Index> sum_blocks(std::span<const Index> counts, std::size_t blocks) {
  const std::size_t length = counts.size() / blocks;
  std::vector<Index> out;
  for (std::size_t b = 0; b < blocks; ++b) {
    const auto block = counts.subspan(b * length, length);
    out.push_back(std::accumulate(block.begin(), block.end(), Index{0}));
  }
  return out;
}

Arrival arrange(std::span<const Index> arrivals_se, std::span<const Index> filler_e) {
  const std::size_t experts = filler_e.size(), sources = arrivals_se.size() / experts;
  std::vector<Index> first_se(arrivals_se.size());  // arrivals before this source and expert
  std::exclusive_scan(arrivals_se.begin(), arrivals_se.end(), first_se.begin(), Index{0});
  const Index arrivals = std::accumulate(arrivals_se.begin(), arrivals_se.end(), Index{0});

  std::vector<std::int32_t> arrival_R, row_A(static_cast<std::size_t>(arrivals));
  std::vector<Index> offset_e1{0};
  for (std::size_t e = 0; e < experts; ++e) {
    for (std::size_t s = 0; s < sources; ++s) {
      const Index first = first_se[s * experts + e];
      for (Index a = first; a < first + arrivals_se[s * experts + e]; ++a) {
        row_A[static_cast<std::size_t>(a)] = static_cast<std::int32_t>(arrival_R.size());
        arrival_R.push_back(static_cast<std::int32_t>(a));
      }
    }
    arrival_R.resize(arrival_R.size() + static_cast<std::size_t>(filler_e[e]), -1);
    offset_e1.push_back(static_cast<Index>(arrival_R.size()));
  }
  return {std::make_shared<const std::vector<std::int32_t>>(std::move(arrival_R)),
          std::make_shared<const std::vector<Index>>(std::move(offset_e1)),
          std::make_shared<const std::vector<std::int32_t>>(std::move(row_A))};
}

std::string describe_exchange(const std::string& name, const Group& ep, const Ticket& ticket) {
  std::ostringstream out;
  out << name << ", member " << ep.rank() << " of " << ep.size() << ", rows of " << ticket.row_bytes
      << " bytes; rows (bytes) by member:\n";
  const auto row = [&](auto... cells) { ((out << std::setw(16) << cells), ...) << '\n'; };
  row("member", "dispatch to", "dispatch from", "combine to", "combine from");
  const auto cell = [&](Index rows) { return str(rows, " (", rows * ticket.row_bytes, ")"); };
  for (std::size_t r = 0; r < ticket.out.send.size(); ++r)
    row(r, cell(ticket.out.send[r]), cell(ticket.out.receive[r]), cell(ticket.back.send[r]),
        cell(ticket.back.receive[r]));
  return out.str();
}

ExchangingDispatcher::ExchangingDispatcher(std::string name, const Context& context)
    : ep_(context.ranks.ep), experts_(context.experts), name_(std::move(name)) {
  MOELAB_CHECK(ep_ && experts_ % ep_->size() == 0, experts_, " experts");
}

Variable ExchangingDispatcher::combine(Tape& tape, const Variable& y_RH,
                                       const Dispatched& dispatched) {
  const Ticket& ticket = *static_cast<const Ticket*>(dispatched.ticket.get());
  const Variable y_AH = gather_rows(tape, y_RH, ticket.row_A);
  const Variable y_SH = exchange_rows(tape, ep_, ticket.back, {y_AH}).front();
  return combine_rows(tape, y_SH, ticket.row_of_P, ticket.offset_T1);
}

std::string ExchangingDispatcher::describe(const Dispatched& dispatched) const {
  return describe_exchange(name_, *ep_, *static_cast<const Ticket*>(dispatched.ticket.get()));
}

}  // namespace moelab
