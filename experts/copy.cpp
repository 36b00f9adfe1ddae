// Copy or identity experts (MoE++, Jin et al. 2024; LongCat-Flash, 2025, calls them
// zero-computation experts).
#include "core/autograd/functions.h"
#include "core/moe/free_expert.h"

namespace moelab {
namespace {

class Copy final : public FreeExpert {
 public:
  struct Params : FreeExpertParams {
    Traits traits() const { return {count, 0}; }
    std::string formula() const { return "expert(x) = x"; }
  };
  Copy(const Params& params, const Context& context)
      : first_(context.first), count_(params.count) {}
  Variable forward(Tape& tape, const Variable& y_TH, const FreeInput& input) override {
    return add(tape, y_TH, scale_rows(tape, input.x_TH, input.weight_T(first_, count_)));
  }

 private:
  Index first_, count_;
};

const Register<FreeExpert, Copy> registered{"copy", "gives the token itself: the identity"};

}  // namespace
}  // namespace moelab
