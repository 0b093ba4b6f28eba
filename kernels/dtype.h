// Storage types of weights and KV cache. Accumulation is f32 everywhere; only storage has a type.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvlab {

enum class DType { f32, bf16 };

/// Bytes of one element.
constexpr std::size_t dtype_bytes(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

constexpr std::string_view dtype_name(DType dtype) { return dtype == DType::f32 ? "f32" : "bf16"; }

/// A bfloat16 in memory: the upper half of an IEEE float.
struct Bf16 {
  std::uint16_t bits;
};

constexpr float bf16_to_float(Bf16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays a (quiet) NaN.
constexpr Bf16 bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

}  // namespace kvlab
