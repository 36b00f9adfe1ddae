// Element types. bf16 is in the type system (storage, names, sizes, safetensors); its arithmetic
// comes with the bf16 run dtype.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moelab {

enum class DType : std::uint8_t { f32, f64, bf16, i32, i64, u8 };

constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::bf16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}
constexpr std::string_view name_of(DType t) {
  constexpr std::string_view names[] = {"f32", "f64", "bf16", "i32", "i64", "u8"};
  return names[static_cast<int>(t)];
}
struct BFloat16 {
  std::uint16_t bits = 0;
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

}  // namespace moelab
