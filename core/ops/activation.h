// Activation: the non-linearity of a feed-forward network, as a kernel on row blocks that dense and
// expert layers fuse. Gated ones read [gate | up] of width 2F and give F; plain ones read F and
// give F.
#pragma once
#include "core/tensor/tensor.h"
#include "registry/component.h"

namespace moelab {

template <class T>
struct ActivationRows {       // rows × width; all pointers are to the first row
  Index rows = 0, width = 0;  // F
  const T* h = nullptr;       // [rows, F or 2F]
  const T* weight = nullptr;  // [rows] combine weight, or null for 1
  T* a = nullptr;             // out [rows, F]: weight · act(h); in backward it may be da itself
  // Backward: da is the gradient of a.
  const T* da = nullptr;  // [rows, F]
  T* dh = nullptr;        // out [rows, F or 2F], written; may be h itself
  T* dweight = nullptr;   // out [rows], written; may be null
  // Elements between rows, and from a gate to its up: of some columns of wider rows. 0: of rows
  // that are F, or 2F, wide.
  Index h_stride = 0, up_offset = 0, dh_stride = 0, dup_offset = 0, a_stride = 0, da_stride = 0;

  Index h_row(bool gated) const { return h_stride > 0 ? h_stride : gated ? 2 * width : width; }
  Index up_at() const { return up_offset > 0 ? up_offset : width; }
  Index dh_row(bool gated) const { return dh_stride > 0 ? dh_stride : gated ? 2 * width : width; }
  Index dup_at() const { return dup_offset > 0 ? dup_offset : width; }
  Index a_row() const { return a_stride > 0 ? a_stride : width; }
  Index da_row() const { return da_stride > 0 ? da_stride : width; }
};

class Activation {
 public:
  static constexpr std::string_view family = "activation";
  struct Facts {};
  struct Traits {
    bool gated = false;
  };
  struct Context {};
  virtual ~Activation() = default;
  virtual bool gated() const = 0;
  virtual void forward(const ActivationRows<float>&) const = 0;  // on the calling thread
  virtual void forward(const ActivationRows<double>&) const = 0;
  virtual void backward(
      const ActivationRows<float>&) const = 0;  // also writes a when a is not null
  virtual void backward(const ActivationRows<double>&) const = 0;
};

}  // namespace moelab
