// The table [model] of a recipe: widths, layer pattern and initial values. It stands here and not
// with the other sections because the model is built from it.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/norm.h"

namespace moelab {

// What one norm of queries or keys runs over: each head, or all heads together (OLMoE).
enum class QkNormWidth : std::uint8_t { head, projection };
template <>
struct EnumNames<QkNormWidth> {
  static constexpr std::array<std::pair<std::string_view, QkNormWidth>, 2> value{
      {{"head", QkNormWidth::head}, {"projection", QkNormWidth::projection}}};
};

struct ModelSection {      // [model]
  std::int64_t seed = -1;  // of initial values and the model's random draws; −1: run.seed
  std::int64_t hidden = 128;
  std::int64_t vocabulary = 0;
  std::vector<std::string> layers{"moe*4"};
  std::int64_t heads = 4, kv_heads = 4, head_dim = 0;  // head_dim 0: hidden / heads
  double rope_theta = 10000.0;
  bool qk_norm = false, attention_bias = false, tied_embeddings = false;
  QkNormWidth qk_norm_width = QkNormWidth::head;
  double dropout = 0.0;
  double norm_eps = 1e-6;
  double init_std = 0.02, router_init_std = 0.02;
  bool scale_residual_init =
      true;  // std of the projections into the residual stream / sqrt(2·layers)
  std::vector<std::string> recompute;  // parts run again in backward: "block"
  Component<Norm> norm{"rms_norm"};
  void describe(ParamVisitor& v);
};

}  // namespace moelab
