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
  const T* h = nullptr;       // [rows, F or 2F], row stride F or 2F
  const T* weight = nullptr;  // [rows] combine weight, or null for 1
  T* a = nullptr;             // out [rows, F]: weight · act(h); in backward it may be da itself
  // Backward: da is the gradient of a.
  const T* da = nullptr;  // [rows, F]
  T* dh = nullptr;        // out [rows, F or 2F], written; may be h itself
  T* dweight = nullptr;   // out [rows], written; may be null
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
