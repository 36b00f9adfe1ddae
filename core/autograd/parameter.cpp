#include "core/autograd/parameter.h"

#include "core/base/threads.h"

namespace moelab {
namespace {

template <class T>
void fill_initial(const Piece& piece, const Init& init, std::uint64_t seed) {
  const Rng rng(seed, "init/" + piece.name);
  T* const value = piece.value.data<T>();
  constexpr Index kGrain = 1024;
  parallel_ranges(piece.value.numel(), kGrain, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) switch (init.kind) {
        case Init::Kind::zeros:
          value[i] = T(0);
          break;
        case Init::Kind::ones:
          value[i] = T(1);
          break;
        case Init::Kind::normal:
          value[i] = static_cast<T>(init.std * rng.normal(static_cast<std::uint64_t>(i)));
          break;
      }
  });
}

}  // namespace

std::vector<Tensor> Parameter::split(const Tensor& like) const {
  MOELAB_CHECK(like.numel() == value.numel(), name, " ", like.shape().text(), " is not like ",
               value.shape().text());
  const Tensor flat = like.view({like.numel()});
  std::vector<Tensor> parts;
  for (const Piece& piece : pieces) {
    const auto offset = static_cast<Index>(piece.value.raw() - value.raw()) /
                        static_cast<Index>(size_of(value.dtype()));
    parts.push_back(flat.rows(offset, piece.value.numel()).view(piece.value.shape()));
  }
  return parts;
}

Parameter make_parameter(const Backend& backend, DType dtype, std::string name, Shape shape,
                         Init init, bool decay, Placement placement) {
  Parameter p;
  p.name = std::move(name);
  p.value = backend.empty(dtype, shape);
  p.placement = placement;
  p.pieces = {{p.name, p.value}};
  p.init = init;
  p.decay = decay;
  return p;
}

void initialize(const Parameter& parameter, std::uint64_t seed) {
  for (const Piece& piece : parameter.pieces)
    dispatch_real(piece.value.dtype(), "initialize",
                  [&]<class T>(T) { fill_initial<T>(piece, parameter.init, seed); });
}

}  // namespace moelab
