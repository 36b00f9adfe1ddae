#include "core/ops/grouped_mlp.h"

#include "core/autograd/functions.h"

namespace moelab {
namespace {

using Rows = std::shared_ptr<const std::vector<std::int32_t>>;
using Offsets = std::shared_ptr<const std::vector<Index>>;

template <class T>
const T* elements(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

// What forward and backward read: exactly this is saved (and h_RG).
struct Saved {
  Tensor source_SH, weight_R, up_eGH, down_eHF, up_bias_eG, down_bias_eH;
  Rows row_R;
  Offsets offset_e1;
  const Activation* activation;

  Index groups() const { return up_eGH.size(0); }
  Index rows() const { return offset_e1->back(); }
  template <class T>
  GroupedMlpArgs<T> args() const {
    GroupedMlpArgs<T> out;
    out.groups = groups(), out.rows = rows();
    out.hidden = up_eGH.size(2), out.up_width = up_eGH.size(1), out.width = down_eHF.size(2);
    out.sources = source_SH.size(0);
    out.offset_e1 = offset_e1->data();
    out.permuted = row_R != nullptr;
    out.row_R = row_R ? row_R->data() : nullptr;
    out.source_SH = source_SH.data<T>();
    out.weight_R = elements<T>(weight_R);
    out.up_eGH = up_eGH.data<T>(), out.down_eHF = down_eHF.data<T>();
    out.up_bias_eG = elements<T>(up_bias_eG), out.down_bias_eH = elements<T>(down_bias_eH);
    out.activation = activation;
    return out;
  }
};

void check(const Saved& s, bool gated) {
  const Index rows = s.rows(), width = s.down_eHF.size(2);
  MOELAB_CHECK(static_cast<Index>(s.offset_e1->size()) == s.groups() + 1, s.offset_e1->size(),
               " offsets for ", s.groups(), " experts");
  MOELAB_CHECK(s.row_R ? static_cast<Index>(s.row_R->size()) == rows : s.source_SH.size(0) == rows,
               "offsets end at ", rows);
  MOELAB_CHECK(!s.weight_R || s.weight_R.numel() == rows, s.weight_R.numel(), " weights for ", rows,
               " rows");
  MOELAB_CHECK(s.up_eGH.size(1) == (gated ? 2 : 1) * width && gated == s.activation->gated() &&
                   s.source_SH.size(1) == s.up_eGH.size(2) &&
                   s.down_eHF.size(1) == s.up_eGH.size(2) && s.down_eHF.size(0) == s.groups(),
               "source ", s.source_SH.shape().text(), ", up ", s.up_eGH.shape().text(), ", down ",
               s.down_eHF.shape().text(), ", gated ", gated);
}

struct Slots {
  GradSlot source_SH, weight_R, up_eGH, down_eHF, up_bias_eG, down_bias_eH, y_RH;
};

template <class T>
GradInto<T> into(const Grad& g) {
  return g ? GradInto<T>{g.into.data<T>(), static_cast<T>(g.beta())} : GradInto<T>{};
}

void backward(Tape& t, const Saved& saved, const Tensor& h_RG, const Slots& slots) {
  const Tensor dy = t.grad(slots.y_RH);
  const Grad source = t.grad_of(slots.source_SH), weight = t.grad_of(slots.weight_R);
  const Grad up = t.grad_of(slots.up_eGH), down = t.grad_of(slots.down_eHF);
  const Grad up_bias = t.grad_of(slots.up_bias_eG), down_bias = t.grad_of(slots.down_bias_eH);
  dispatch_real(dy.dtype(), "grouped_mlp", [&]<class T>(T) {
    const GroupedMlpGrads<T> grads{into<T>(source), into<T>(weight),  into<T>(up),
                                   into<T>(down),   into<T>(up_bias), into<T>(down_bias)};
    grouped_mlp_backward<T>(t.backend(), saved.args<T>(), h_RG.data<T>(), dy.data<T>(), grads);
  });
}

}  // namespace

Variable grouped_mlp(Tape& tape, const Variable& source_SH, Rows row_R, Offsets offset_e1,
                     const Variable* weight_R, const GroupedMlp& mlp) {
  const OpTimer timer(tape, "grouped_mlp");
  Backend& backend = tape.backend();
  const Variable none;
  const Variable& weight = weight_R ? *weight_R : none;
  const Saved saved{source_SH.value,    weight.value,         mlp.up_eGH.value,
                    mlp.down_eHF.value, mlp.up_bias_eG.value, mlp.down_bias_eH.value,
                    std::move(row_R),   std::move(offset_e1), mlp.activation};
  check(saved, mlp.gated);
  const DType dtype = source_SH.value.dtype();
  const Variable y_RH = tape.output(
      backend.empty(dtype, {saved.rows(), mlp.up_eGH.value.size(2)}),
      {&source_SH, &weight, &mlp.up_eGH, &mlp.down_eHF, &mlp.up_bias_eG, &mlp.down_bias_eH});
  Tensor h_RG;
  if (y_RH.needs_grad()) h_RG = backend.empty(dtype, {saved.rows(), mlp.up_eGH.value.size(1)});
  dispatch_real(dtype, "grouped_mlp", [&]<class T>(T) {
    grouped_mlp_forward<T>(backend, saved.args<T>(), h_RG ? h_RG.data<T>() : nullptr,
                           y_RH.value.data<T>());
  });
  if (!y_RH.needs_grad()) return y_RH;
  const Slots slots{source_SH.slot(),    weight.slot(),         mlp.up_eGH.slot(),
                    mlp.down_eHF.slot(), mlp.up_bias_eG.slot(), mlp.down_bias_eH.slot(),
                    y_RH.slot()};
  tape.step("grouped_mlp", {y_RH.slot()},
            [saved, h_RG, slots](Tape& t) { backward(t, saved, h_RG, slots); });
  return y_RH;
}

}  // namespace moelab
