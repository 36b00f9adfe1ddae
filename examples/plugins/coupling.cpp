// Couples experts and router through a loss on their weights ("Coupling Experts and Routers in
// Mixture-of-Experts via an Auxiliary Loss", 2025, arXiv 2512.23447): a router's row stands for the
// tokens that it sends to its expert; that expert should answer it with the largest activation, and
// answer no other row with a larger one. M_ij = ‖W_j R_i‖, the norm of what expert j's first
// projection makes of row i, and
//   L = mean over i, j of max(M_ij − α M_ii, 0) + max(M_ij − α M_jj, 0) over i ≠ j.
// The paper also draws noise on R; this one does not. E experts, e of them on this rank, H hidden,
// G rows of the up projections, F of them used.
#include <cmath>

#include "core/autograd/functions.h"
#include "core/backend/gemm.h"
#include "core/moe/balancer.h"
#include "core/moe/exchange.h"
#include "core/moe/experts.h"

namespace moelab {
namespace {

template <class T>
GemmArgs<T> product(Index m, Index n, Index k, const T* a, Index lda, const T* b, Index ldb, T* c,
                    Index ldc) {
  GemmArgs<T> args;
  args.m = m, args.n = n, args.k = k;
  args.a = a, args.lda = lda, args.b = b, args.ldb = ldb, args.c = c, args.ldc = ldc;
  return args;
}

// h_EF = R_EH W_FHᵀ: what one expert makes of every row.
template <class T>
void answers(const T* r_EH, const T* w_FH, Index experts, Index width, Index hidden, T* h_EF) {
  GemmArgs<T> args = product(experts, width, hidden, r_EH, hidden, w_FH, hidden, h_EF, width);
  args.transpose_b = true;
  gemm(args);
}

// M_eE: row j holds the norms of the answers of local expert j to every row of the router.
// The router may have rows of experts without a network behind the first `experts`.
Variable answer_norms(Tape& tape, const Variable& r_EH, const Variable& w_eGH, Index experts,
                      Index width) {
  const Index local = w_eGH.value.size(0), hidden = r_EH.value.size(1);
  const Tensor m_eE = tape.backend().empty(r_EH.value.dtype(), {local, experts});
  dispatch_real(m_eE.dtype(), "coupling", [&](auto zero) {
    using T = decltype(zero);
    const Tensor h_EF = tape.backend().empty(m_eE.dtype(), {experts, width});
    for (Index j = 0; j < local; ++j) {
      answers(r_EH.value.data<T>(), w_eGH.value[j].data<T>(), experts, width, hidden,
              h_EF.data<T>());
      for (Index i = 0; i < experts; ++i) {
        T sum = 0;
        for (const T value : h_EF[i].span<T>()) sum += value * value;
        m_eE.data<T>()[j * experts + i] = std::sqrt(sum);
      }
    }
  });
  const Variable m = tape.output(m_eE, {&r_EH, &w_eGH});
  if (!m.needs_grad()) return m;
  tape.step("coupling_norms", {m.slot()},
            [=, r = r_EH.value, w = w_eGH.value, dr = r_EH.slot(), dw = w_eGH.slot(),
             m = m.slot()](Tape& t) {
              dispatch_real(r.dtype(), "coupling", [&](auto zero) {
                using T = decltype(zero);
                const Tensor h_EF = t.backend().empty(r.dtype(), {experts, width});
                const Tensor dr_EH = t.backend().zeros(r.dtype(), r.shape());
                const Tensor dw_eGH = t.backend().zeros(w.dtype(), w.shape());
                const T* dm = t.grad(m).data<T>();
                for (Index j = 0; j < local; ++j) {
                  T* h = h_EF.data<T>();
                  answers(r.data<T>(), w[j].data<T>(), experts, width, hidden, h);
                  for (Index i = 0; i < experts; ++i) {  // d‖h‖ = h / ‖h‖
                    const T norm = m_eE.data<T>()[j * experts + i];
                    const T factor = norm > 0 ? dm[j * experts + i] / norm : 0;
                    for (T& value : h_EF[i].span<T>()) value *= factor;
                  }
                  auto to_r = product<T>(experts, hidden, width, h, width, w[j].data<T>(), hidden,
                                         dr_EH.data<T>(), hidden);
                  to_r.beta = 1;
                  gemm(to_r);
                  auto to_w = product<T>(width, hidden, experts, h, width, r.data<T>(), hidden,
                                         dw_eGH[j].data<T>(), hidden);
                  to_w.transpose_a = true;
                  gemm(to_w);
                }
                t.give(dr, dr_EH);
                t.give(dw, dw_eGH);
              });
            });
  return m;
}

// Σ over local j, all i ≠ j of max(M_ij − α d_i, 0) + max(M_ij − α M_jj, 0), times `factor`; d_E
// holds the diagonal of all ranks.
Variable hinges(Tape& tape, const Variable& m_eE, const Variable& d_E, Index first, double alpha,
                double factor) {
  const Index local = m_eE.value.size(0), experts = m_eE.value.size(1);
  const Tensor dm_eE = tape.backend().zeros(m_eE.value.dtype(), m_eE.value.shape());
  const Tensor dd_E = tape.backend().zeros(d_E.value.dtype(), d_E.value.shape());
  const Tensor loss = tape.backend().empty(m_eE.value.dtype(), {1});
  dispatch_real(loss.dtype(), "coupling", [&](auto zero) {
    using T = decltype(zero);
    const auto d = d_E.value.span<T>(), dd = dd_E.span<T>();
    double sum = 0;
    for (Index j = 0; j < local; ++j)
      for (Index i = 0; i < experts; ++i)
        for (const Index own : {i, first + j}) {
          if (i == first + j) continue;
          const auto at = static_cast<std::size_t>(own);
          const double over = static_cast<double>(m_eE.value.data<T>()[j * experts + i]) -
                              alpha * static_cast<double>(d[at]);
          if (over <= 0) continue;
          sum += factor * over;
          dm_eE.data<T>()[j * experts + i] += static_cast<T>(factor);
          dd[at] -= static_cast<T>(factor * alpha);
        }
    loss.data<T>()[0] = static_cast<T>(sum);
  });
  const Variable out = tape.output(loss, {&m_eE, &d_E});
  if (!out.needs_grad()) return out;
  tape.step("coupling_hinges", {out.slot()},
            [=, m = m_eE.slot(), d = d_E.slot(), out = out.slot()](Tape& t) {
              dispatch_real(out.dtype, "coupling", [&](auto zero) {
                using T = decltype(zero);
                const T dloss = t.grad(out).template data<T>()[0];
                for (T& value : dm_eE.span<T>()) value *= dloss;
                for (T& value : dd_E.span<T>()) value *= dloss;
              });
              t.give(m, dm_eE);
              t.give(d, dd_E);
            });
  return out;
}

class Coupling final : public Balancer {
 public:
  struct Params {
    double coefficient = 0.01, alpha = 1.0;
    void describe(ParamVisitor& v) {
      v("coefficient", coefficient, "weight of the loss in the objective", at_least(0));
      v("alpha", alpha, "how much of its own expert's answer a row's other answers may reach",
        between(0, 1));
    }
    Balancer::Traits traits() const { return {.has_loss = true, .scope = {}}; }
    std::string formula() const {
      return str("M_ij = |W_j R_i|, R the router's rows, W the experts' first projections; L = ",
                 "1/experts^2 * sum over i != j of max(M_ij - a M_ii, 0) + max(M_ij - a M_jj, 0), ",
                 "a = ", exact(alpha), "; objective + ", exact(coefficient), " * L");
    }
  };
  Coupling(const Params& params, const Context& context) : params_(params), label_(context.label) {}

  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) override {
    Parameter* router = input.router ? input.router->gate() : nullptr;
    Parameter* up = input.experts ? input.experts->up() : nullptr;
    if (!router || !up || up->value.size(2) != router->value.size(1))
      throw Error(ExitCode::usage, str("balancer ", label_,
                                       ": coupling needs a router with a gate and experts of "
                                       "type \"grouped\" that read the same width"));
    const Index local = up->value.size(0), ranks = input.ep ? input.ep->size() : 1;
    const Index experts = local * ranks, first = input.ep ? input.ep->rank() * local : 0;
    // Gated experts: the gate's half of the fused projection.
    const bool gated = up->pieces.front().name.find(".gate_proj.") != std::string::npos;
    const Index width = up->value.size(1) / (gated ? 2 : 1);
    const Variable m_eE = answer_norms(tape, tape.leaf(*router), tape.leaf(*up), experts, width);
    std::vector<Index> own_e;
    for (Index j = 0; j < local; ++j) own_e.push_back(j * experts + first + j);
    Variable d_E = gather_weights(tape, reshape(tape, m_eE, {local * experts}),
                                  std::make_shared<const std::vector<Index>>(std::move(own_e)));
    if (local < experts) d_E = gather_ranks(tape, input.ep, d_E, local);
    // Once a step and for all copies of the experts together.
    const Index copies = (input.dp ? input.dp->size() : 1) / ranks;
    const auto count = static_cast<double>(experts * experts * copies * input.moment.micro_batches);
    return LossTerm{label_, input.layer, hinges(tape, m_eE, d_E, first, params_.alpha, 1 / count),
                    params_.coefficient, false};
  }

 private:
  Params params_;
  std::string label_;
};

const Register<Balancer, Coupling> registered{
    "coupling", "each expert answers its own router row the strongest"};

}  // namespace
}  // namespace moelab
