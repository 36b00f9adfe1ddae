// What happens to gradients between backward and the update: parameters that received none get
// zeros, replicas are summed (dense parameters over dp, experts over edp), and one norm is taken
// over distinct parameters: f64, summed in the order of the global piece names, so that a layout
// changes it only through the gradients themselves.
#pragma once
#include <string>
#include <vector>

#include "core/autograd/parameter.h"
#include "core/parallel/rank_context.h"

namespace moelab {

class Gradients {
 public:
  // Collective over the expert group: the ranks tell each other the names of their experts' pieces.
  Gradients(std::vector<Parameter*> parameters, const RankContext& ranks);

  void reduce();  // zero fill and sums; collective
  // The global norm; collective, the same bits on every rank. Not finite if any element is not.
  double norm();
  // After norm(): the piece nearest the loss whose gradient is not finite, since from there it
  // spread; "" if all are finite. The same on every rank and layout.
  std::string non_finite() const;
  std::vector<std::string> names() const;  // of all pieces of the whole model, sorted
  void clear();                            // the next backward overwrites

 private:
  struct Slot {  // a piece of the whole model, in name order
    std::string name;
    Index order = 0;  // of its parameter in the model
    bool expert = false;
    std::size_t at = 0;  // in dense_ or in the gathered expert sums
  };

  std::vector<Parameter*> parameters_;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Group> dp_, ep_, edp_;
  std::vector<Slot> slots_;
  std::vector<double> sums_;  // of slots_, from the last norm()
  std::size_t dense_pieces_ = 0, expert_pieces_ = 0;
};

// The factor that brings a gradient of this norm down to `limit`: min(1, limit / (norm + 1e-6)), as
// torch.nn.utils.clip_grad_norm_. 1 when limit is 0.
double clip_factor(double norm, double limit);

}  // namespace moelab
