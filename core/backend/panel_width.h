// Loops over the columns of a panel of our own matrix products.
#pragma once
#include <type_traits>

#include "core/tensor/tensor.h"

namespace moelab {

// Calls loop(width as a constant, 0 for any other): one panel's columns become straight code.
template <class Loop>
void at_width(Index width, const Loop& loop) {
  constexpr Index kHalfPanel = 16, kPanel = 32;
  if (width == kHalfPanel)
    loop(std::integral_constant<Index, kHalfPanel>());
  else if (width == kPanel)
    loop(std::integral_constant<Index, kPanel>());
  else
    loop(std::integral_constant<Index, 0>());
}

// Columns [0, width) of `rows` rows to other ones: written, or added where kAdd.
template <bool kAdd>
void move_columns(Index rows, Index width, const float* from, Index from_stride, float* into,
                  Index into_stride) {
  at_width(width, [&](auto fixed) {
    const Index columns = fixed() > 0 ? fixed() : width;
    for (Index r = 0; r < rows; ++r, from += from_stride, into += into_stride)
#pragma omp simd
      for (Index j = 0; j < columns; ++j) into[j] = kAdd ? into[j] + from[j] : from[j];
  });
}
inline constexpr auto& copy_columns = move_columns<false>;
inline constexpr auto& add_columns = move_columns<true>;

}  // namespace moelab
