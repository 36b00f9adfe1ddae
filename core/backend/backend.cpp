#include "core/backend/backend.h"

#include <cstring>

#include "core/backend/cuda_plugin.h"
#include "core/base/threads.h"
#include "registry/error.h"

namespace moelab {
namespace {

constexpr Index kGrainBytes = 1 << 17;

}  // namespace

std::shared_ptr<Backend> Backend::cpu() {
  return std::shared_ptr<Backend>(new Backend(Arena::create()));
}

std::shared_ptr<Backend> Backend::create(const std::string& device) {
  if (device == "cpu") return cpu();
  if (device == "cuda")
    throw Error(ExitCode::resources,
                str("device 'cuda': this version's libmoelab_cuda.so holds kernels, but no backend "
                    "that a run could use; choose device 'cpu'. CUDA here: ",
                    cuda_plugin().text));
  throw Error(ExitCode::usage, str("device '", device, "' is not one of cpu cuda"));
}

Tensor Backend::empty(DType dtype, Shape shape) const {
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  return {arena_->allocate(bytes), 0, dtype, shape};
}

Tensor Backend::zeros(DType dtype, Shape shape) const {
  Tensor t = empty(dtype, shape);
  fill_zero(t);
  return t;
}

void fill_zero(const Tensor& t) {
  std::byte* const to = t.raw();
  parallel_ranges(static_cast<Index>(t.bytes()), kGrainBytes, [&](Index begin, Index end) {
    std::memset(to + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

void copy(const Tensor& from, const Tensor& to) {
  MOELAB_CHECK(from.dtype() == to.dtype() && from.numel() == to.numel(), name_of(from.dtype()),
               from.shape().text(), " to ", name_of(to.dtype()), to.shape().text());
  const std::byte* const source = from.raw();
  std::byte* const target = to.raw();
  parallel_ranges(static_cast<Index>(to.bytes()), kGrainBytes, [&](Index begin, Index end) {
    std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace moelab
