#include "core/moe/state_store.h"

#include "core/base/check.h"

namespace moelab {

Tensor& StateStore::get(const Backend& backend, const std::string& name, DType dtype, Shape shape) {
  const auto [at, fresh] = tensors_.try_emplace(prefix_ + "." + name);
  Tensor& tensor = at->second;
  if (fresh) tensor = backend.zeros(dtype, shape);
  MOELAB_CHECK(tensor.dtype() == dtype && tensor.shape() == shape, "state ", at->first, " is ",
               name_of(tensor.dtype()), " ", tensor.shape().text(), ", asked for as ",
               name_of(dtype), " ", shape.text());
  return tensor;
}

}  // namespace moelab
