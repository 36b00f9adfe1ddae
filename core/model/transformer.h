// Pre-norm decoder: token embedding, blocks of (norm, attention, norm, ffn), final norm, head (tied
// or not). T tokens, H hidden, V vocabulary.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/model/block.h"
#include "core/model/model_section.h"
#include "core/moe/ffn.h"

namespace moelab {

class KvCache;

struct ModelSpec {
  ModelSection section;
  std::vector<std::string> layers;            // ffn table of each block, the pattern expanded
  std::map<std::string, Component<Ffn>> ffn;  // by table name
  Index vocabulary = 0;                       // rows of embedding and head
  DType dtype = DType::f32;
  std::uint64_t seed = 1;  // of initial values and of the model's random draws
  Index tokens = 0;        // ids that the tokenizer knows, the only ones generated; 0: all
};

struct ForwardOptions {  // what it points to must live as long as the tape
  // Routing to replay, by block; an entry without offsets leaves its block free. Null: none.
  const std::vector<ForcedRouting>* forced = nullptr;
  bool compare_forced = false;  // records count where the routers' own choices differ
  const NoiseSource* noise = nullptr;
  KvCache* cache = nullptr;  // generation: keys and values of earlier positions
  bool want_logits = false;
};

struct ModelOutput {
  Variable loss_sum;  // [1]: Σ of −log p over rows with target ≥ 0; undefined without targets
  std::vector<LossTerm> losses;                         // balancing losses of all layers, unseeded
  std::vector<std::shared_ptr<RoutingRecord>> records;  // of the MoE layers, lowest block first
  Variable logits_TV;                                   // only when wanted
};

// A pass over several batches, seen from outside: what forwards are given and what they leave. m
// counts the batches (in generation: the calls). Each may be empty. What the options point to must
// live until the pass is over.
struct ForwardHooks {
  std::function<ForwardOptions(Index m, const Tokens&)> options;
  std::function<void(Index m, const Tokens&, const ModelOutput&)> output;
};

// What ForwardOptions::forced takes to play the routing of `output` back on as many blocks.
std::vector<ForcedRouting> recorded_routing(const ModelOutput& output, Index blocks);

class Transformer : public Module {
 public:
  // Collective when components are. Initial values are a pure function of (spec.seed, parameter
  // name with its global expert id, index), the same on every layout: norms 1, biases 0, matrices
  // normal with std init_std; o_proj and down_proj, which write into the residual stream,
  // init_std / sqrt(2·layers) if scale_residual_init; routers' gates router_init_std.
  Transformer(const ModelSpec& spec, const RankContext& ranks);
  Transformer(const Transformer&) = delete;  // its parts hold a reference to its ranks
  Transformer& operator=(const Transformer&) = delete;

  // `tokens` are copied (tensors shared), so that the tape may outlive them. target_T: i32 [T], −1
  // for no loss; undefined for none. Seed loss_sum with 1/valid targets of the whole step and each
  // loss with its coefficient, then tape.backward(). moment.seed is set to spec.seed.
  ModelOutput forward(Tape& tape, const Tokens& tokens, const Tensor& target_T,
                      const Moment& moment, const StepFacts& facts,
                      const ForwardOptions& options = {});

  void parameters(const std::function<void(Parameter&)>& visit) override;
  Index layers() const { return static_cast<Index>(blocks_.size()); }
  Ffn& ffn(Index layer) { return blocks_[static_cast<std::size_t>(layer)]->ffn(); }
  const ModelSpec& spec() const { return spec_; }
  Backend& backend() const { return *ranks_.backend; }
  // State of the MoE layers' components, lowest block first.
  std::vector<StateStore*> states();
  void begin_step();  // before the first micro-batch of every step
  // After the optimizer's step, by block; not for skipped steps, nor when controllers are frozen.
  void after_step(const std::map<Index, StepLoad>& load_of_layer);

 private:
  FfnOutput run_block(Tape& tape, Block& block, const Variable& x_TH,
                      const Variable& previous_logits_TE, const BlockInput& input) const;
  void finish(Tape& tape, const Variable& x_TH, const Tensor& target_T, bool want_logits,
              ModelOutput& out);

  ModelSpec spec_;
  RankContext ranks_;
  Parameter embedding_;  // [V, H]
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<Norm> final_norm_;
  Parameter head_;  // [V, H]; undefined value when tied
};

}  // namespace moelab
