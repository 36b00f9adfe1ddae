// The differentiable ops, lifted to Variables: what component authors compose. Each is one file in
// core/autograd/functions/ over kernels in core/ops/, and one case list in core/lab/op_cases/.
// T rows, H/D/F widths, V vocabulary, E experts, P pair slots, R rows sorted by expert, k choices.
#pragma once
#include <memory>
#include <vector>

#include "core/autograd/tape.h"
#include "core/ops/activation.h"
#include "core/ops/router_rule.k.h"

namespace moelab {

// y_TF = x_TH · w_FHᵀ (+ b_F). Saves x.
Variable linear(Tape&, const Variable& x_TH, const Variable& w_FH, const Variable* b_F = nullptr);
// y_TD = w_VD[id_T]; negative ids give zero rows.
Variable embedding(Tape&, const Variable& w_VD, const Tensor& id_T);
// y = x / sqrt(mean(x²) + eps) · w_D. Saves x and one number a row. (Zhang & Sennrich 2019)
Variable rms_norm(Tape&, const Variable& x_TD, const Variable& w_D, double eps);
// y = (x − mean) / sqrt(var + eps) · w_D (+ b_D). (Ba et al. 2016)
Variable layer_norm(Tape&, const Variable& x_TD, const Variable& w_D, const Variable* b_D,
                    double eps);
Variable add(Tape&, const Variable& a, const Variable& b);
// The same elements under another shape; forward shares the storage.
Variable reshape(Tape&, const Variable& x, Shape shape);
Variable scale(Tape&, const Variable& a, double factor);
// y = x · min(base · e^exponent, most): a trained temperature. Saves x.
Variable scale_exp(Tape&, const Variable& x_TW, const Variable& exponent_1, double base,
                   double most);
// y = log(1 + e^x) + offset. Saves x.
Variable softplus(Tape&, const Variable& x, double offset);
// Zeroes each element with probability p and scales the rest by 1/(1−p); element i of row t draws
// index (global_row + t)·width + i of `rng`.
Variable dropout(Tape&, const Variable& x_TD, double p, const Rng& rng, Index first_global_row);
// Zeroes the rows where valid_T is 0 (forward and backward).
Variable mask_rows(Tape&, const Variable& x_TD, const Tensor& valid_T);
// A plain activation or gate as an op of its own: y_TF from h_TF or h_T2F.
Variable activate(Tape&, const Activation& activation, const Variable& h);

// Rotary position embedding on q or k, in halves (GPT-NeoX, Hugging Face): x_T(N·D), N heads of D.
Variable rope(Tape&, const Variable& x, Index heads, double theta, const Tensor& position_T);

struct AttentionShape {
  Index batch = 0, length = 0;  // B·L = T
  Index heads = 0, kv_heads = 0, head_dim = 0;
  double scale = 0;  // 1/sqrt(head_dim) if 0
};
// Causal attention with grouped queries, blocked: memory linear in L. Tokens see earlier tokens of
// the same row with the same document id. q_T(N·D), k_T(M·D), v_T(M·D) → o_T(N·D). Saves q, k, v, o
// and one number a (token, head). (Dao et al. 2022)
Variable attention(Tape&, const Variable& q, const Variable& k, const Variable& v,
                   const AttentionShape& shape, const Tensor& document_T);

// Σ over rows with target ≥ 0 of −log softmax(logits)[target], as [1] in f64-accurate sum of the
// run dtype. Saves one number a row and the logits (whose storage backward may overwrite).
Variable cross_entropy_sum(Tape&, const Variable& logits_TV, const Tensor& target_T);
// Per-row losses without gradient, f64 [T]; 0 where target < 0.
Tensor cross_entropy_rows(Backend&, const Tensor& logits_TV, const Tensor& target_T);

// The feed-forward network of every kind: y_RH = down_e(act(up_e(x_row)) · weight_R), rows sorted
// by expert. e = 1 with identity rows is the dense MLP. Saves source, up output h (R·F or R·2F),
// weights.
struct GroupedMlp {
  Variable up_eGH;                    // [e, F or 2F, H]; gated: gate rows first, then up rows
  Variable down_eHF;                  // [e, H, F]
  Variable up_bias_eG, down_bias_eH;  // may be empty; the down bias is scaled by the combine weight
  const Activation* activation = nullptr;
  bool gated = true;
};
// row_R: source row of each row, −1 for zero rows; null: identity. offset_e1: e+1 row offsets.
Variable grouped_mlp(Tape&, const Variable& source_SH,
                     std::shared_ptr<const std::vector<std::int32_t>> row_R,
                     std::shared_ptr<const std::vector<Index>> offset_e1, const Variable* weight_R,
                     const GroupedMlp& mlp);
// y_eRF-like plain grouped product: rows of group e times w_eFHᵀ. For other experts and tests.
Variable grouped_linear(Tape&, const Variable& x_RH,
                        std::shared_ptr<const std::vector<Index>> offset_e1, const Variable& w_eFH);

// y_RH = x_SH[row_R] (−1: zero row); backward sums rows of one source in row order.
Variable gather_rows(Tape&, const Variable& x_SH,
                     std::shared_ptr<const std::vector<std::int32_t>> row_R);
// The rows of all parts, one after another (same width and dtype).
Variable concat_rows(Tape&, const std::vector<Variable>& parts);
// y_TH[t] = Σ_j x_RH[row_of_P[p]] over the pair slots p of t in choice order, −1 skipped.
Variable combine_rows(Tape&, const Variable& x_RH,
                      std::shared_ptr<const std::vector<std::int32_t>> row_of_P,
                      std::shared_ptr<const std::vector<Index>> offset_T1);

// The router as one op and one backward.
struct RouterScores {                  // results of router_select
  Variable weight_P;                   // [T·k], 0 where absent
  Variable scores_TE;                  // normalised over all experts; rows of invalid tokens 0
  std::vector<std::int32_t> expert_P;  // [T·k] choice order; −1 for invalid tokens
};
// logits_TE (f32 or f64) → selection, weights (in `out`, the run dtype) and scores (logits' dtype).
// bias_E is added to the selection key only. forced_P overrides the selection. Ties: lowest expert
// id. Saves logits, scores and the chosen ids.
RouterScores router_select(Tape&, const Variable& logits_TE, const RouterRule& rule,
                           const Tensor& bias_E, const Tensor& valid_T,
                           const std::vector<std::int32_t>* forced_P, DType out);
// SparseMixer-v2 (Liu et al. 2023; Phi-3.5-MoE): k rounds, each of which leaves out the experts
// that lie below the best of those left, m, by (m − l_e) / max(|l_e|, m) > 2·epsilon, chooses one
// of the rest, and weighs it by its softmax among them. With Gumbel noise the choice is a sample;
// with uniform noise u a choice that is not the best keeps its whole weight where u > 3/4 and a
// third of it elsewhere. Backward passes dweight through the softmax, whatever that factor was: an
// estimate of the gradient through the sampling (of third order, after Heun), not the derivative.
struct SparseMixerRule {
  std::int64_t k = 2;
  double epsilon = 0.01, scaling = 1.0;
};
struct SparseMixerInput {
  Tensor bias_E;  // enters the choice only
  Tensor valid_T;
  const std::vector<std::int32_t>* forced_P = nullptr;
  Tensor gumbel_PE, uniform_P;  // f64; undefined: no noise
};
struct SparseMixerChoice {
  Variable weight_P;                   // in `out`; 0 where absent
  std::vector<std::int32_t> expert_P;  // −1 for invalid tokens
};
SparseMixerChoice sparse_mixer(Tape&, const Variable& logits_TE, const SparseMixerRule& rule,
                               const SparseMixerInput& input, DType out);
// Pairs of each token, [offset[t], offset[t+1]), in choice order; −1: absent.
struct TokenPairs {
  std::vector<Index> offset_T1;
  std::vector<std::int32_t> expert_P;
};
// Chooses from the raw scores [T, E], rows of invalid tokens being 0.
using ChoosePairs = std::function<std::shared_ptr<const TokenPairs>(const Tensor& scores_TE)>;
struct PairScores {                         // results of router_pairs
  Variable weight_P;                        // scaling · raw score, 0 where absent
  Variable scores_TE;                       // normalised over all experts; rows of invalid tokens 0
  std::shared_ptr<const TokenPairs> pairs;  // what was chosen
};
// router_select for tokens that each have a number of experts of their own: logits_TE → raw scores,
// choice, weights (in `out`, the run dtype) and scores. Saves logits, scores and the pairs.
PairScores router_pairs(Tape&, const Variable& logits_TE, ScoreKind score, double scaling,
                        const Tensor& valid_T, const ChoosePairs& choose, DType out);
// logits_TE = x_TH · w_EHᵀ (+ b_E) computed in `compute` (f32 or f64; x and w widen).
Variable gating(Tape&, const Variable& x_TH, const Variable& w_EH, const Variable* b_E,
                DType compute);
// y = x ⊙ factor, an element-wise constant of x's shape and dtype (noise). Saves factor.
Variable multiply(Tape&, const Variable& x, const Tensor& factor);
// Gathers weight_P at pair slots (row order of a dispatcher): y_R = w_P[slot_R], −1 gives 0. A slot
// stands in at most one row.
Variable gather_weights(Tape&, const Variable& w_P,
                        std::shared_ptr<const std::vector<Index>> slot_R);
// w ← w / max(Σ of the kept slots of its token, floor) (renormalise after dropping); dropped slots
// become 0.
Variable renormalize_weights(Tape&, const Variable& w_P, const std::vector<Index>& offset_T1,
                             const std::vector<std::uint8_t>& kept_P, double floor = 0);

// N weights a token from logits l_TN, one [T] each: softmax over the N, for N = 1 the sigmoid;
// exactly 0 for padding. Saves the weights.
std::vector<Variable> token_weights(Tape&, const Variable& l_TN, const Tensor& valid_T);
// y_TD[t] = w_T[t] · x_TD[t]. Saves both.
Variable scale_rows(Tape&, const Variable& x_TD, const Variable& w_T);
// y_T[t] = Σ of w_P over the token's pair slots that are chosen. Saves nothing.
Variable sum_weights(Tape&, const Variable& w_P,
                     std::shared_ptr<const std::vector<Index>> offset_T1,
                     std::shared_ptr<const std::vector<std::uint8_t>> chosen_P);

// Σ_g c_g · Σ_i f_gi · (Σ_{t in g} scores_ti): value [1] and gradient of a switch-style loss, given
// coefficients per (instance, expert). instance_T: table row of each token, −1: skip.
Variable weighted_score_sum(Tape&, const Variable& scores_TE, const Tensor& coefficient_GE,
                            const std::vector<std::int32_t>& instance_T);
// P_te: how likely expert e is among the k best of token t once its own noise is drawn anew, the
// others' staying as they are: Φ((clean − threshold) / std), threshold the k-th largest of the
// other experts' noisy logits. Without std_TE the noise has `fixed_std`. k < E. Rows of invalid
// tokens are 0. Saves P and the ids of the k + 1 largest. (Shazeer et al. 2017, eq. 8 and 9)
Variable choice_probability(Tape&, const Variable& clean_TE, const Variable& noisy_TE,
                            const Variable* std_TE, double fixed_std, Index k,
                            const Tensor& valid_T);
// Σ_t weight_T · logsumexp(logits_t)²: the z-loss's local part. weight_T f64 [T], 0 for padding.
Variable weighted_lse_square(Tape&, const Variable& logits_TE, const Tensor& weight_T);

// What a loss on the rows of a matrix sums over all pairs (i, j): the deviation of their products
// from those of orthonormal rows, w_i·w_j − δ_ij, as |·| or squared.
struct GramRule {
  bool squared = false;
  bool normalize = false;  // each row is divided by its length first
};
// [1]. Saves one E × E matrix and, if it normalises, the normalised rows.
Variable gram_penalty(Tape&, const Variable& w_EH, const GramRule& rule);

}  // namespace moelab
