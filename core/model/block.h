// One decoder block: x + attention(norm(x)), then + ffn(norm(·)), with dropout on both branches.
#pragma once
#include <memory>

#include "core/model/attention.h"
#include "core/moe/ffn.h"

namespace moelab {

struct BlockInput {  // by value: a recomputed segment runs again after the forward has returned
  Tokens tokens;
  Tensor document_T;  // as attention sees it: padding is a document of its own
  Moment moment;
  StepFacts facts;
  std::shared_ptr<ScopeMaps> scopes;
  const ForcedRouting* forced = nullptr;
  const NoiseSource* noise = nullptr;
  KvCache* cache = nullptr;
  bool compare_forced = false;
};

class Block : public Module {
 public:
  Block(const ModelSection& section, const Component<Ffn>& ffn, const Ffn::Context& context);
  // previous_logits_TE: of the MoE layer before, or undefined. The output's y_TH is the block's.
  FfnOutput forward(Tape& tape, const Variable& x_TH, const Variable& previous_logits_TE,
                    const BlockInput& input);
  void parameters(const std::function<void(Parameter&)>& visit) override;
  Ffn& ffn() { return *ffn_; }

 private:
  Variable drop(Tape& tape, const Variable& x_TH, const char* site, const BlockInput& input) const;

  Index layer_ = 0;
  double dropout_ = 0;
  std::unique_ptr<Norm> attention_norm_, ffn_norm_;
  std::unique_ptr<Attention> attention_;
  std::unique_ptr<Ffn> ffn_;
};

}  // namespace moelab
