// Sinkhorn's iteration on router logits (Cuturi 2013; as a router: Clark et al. 2022, Megatron
// Core): factors d0 of tokens and d1 of experts such that d0_t · exp(l_te) · d1_e has row sums 1/T
// and column sums 1/E. In the log domain, so that no logit overflows and a constant added to a
// token changes nothing. T valid tokens of a scope instance, E experts, G instances.
#pragma once
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "core/moe/scope.h"

namespace moelab {

// When the iteration ends: at the largest relative deviation of a column sum from 1/E, or at the
// mean change of d1, which depends on the logits' scale (Megatron Core).
enum class SinkhornStop : std::uint8_t { column_error, factor_change };
template <>
struct EnumNames<SinkhornStop> {
  static constexpr std::array<std::pair<std::string_view, SinkhornStop>, 2> value{
      {{"column_error", SinkhornStop::column_error},
       {"factor_change", SinkhornStop::factor_change}}};
};

struct SinkhornRule {
  SinkhornStop stop = SinkhornStop::column_error;
  double tolerance = 1e-3;
  Index max_iterations = 100;
  double epsilon = 0;  // added to row and column sums (Megatron Core: 1e-8)
};

struct SinkhornFactors {
  std::vector<double> log_row_T;      // log d0; 0 for padding
  std::vector<double> log_column_GE;  // log d1 of this rank's instances
  std::vector<Index> iterations_G;    // by instance
};

// Over each instance of `scope`, on all ranks that share it. Collective when instances span ranks;
// one exchange an iteration. The same bits for any number of threads.
SinkhornFactors sinkhorn(const Tensor& logits_TE, const SinkhornRule& rule, const ScopeMap& scope,
                         const Tokens& tokens);

}  // namespace moelab
