// The 2-byte number formats and the conversions and functions of which the device has instructions of its own. Device
// and emulator agree bit by bit, exp2_approx aside.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/portable.cuh"
#include "kernels/dtype.h"

namespace kvlab::cuda {

/// An IEEE half in memory. Bf16 is kvlab::Bf16.
struct F16 {
  std::uint16_t bits;
};

KVLAB_DEVICE float float_from_bits(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
KVLAB_DEVICE std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }

KVLAB_DEVICE float to_float(Bf16 value) { return float_from_bits(static_cast<std::uint32_t>(value.bits) << 16); }

/// To nearest, ties to even; every NaN becomes 0x7FFF.
KVLAB_DEVICE Bf16 to_bf16(float value) {
#if defined(__CUDACC__)
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return {bits};
#else
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {0x7FFF};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
#endif
}

KVLAB_DEVICE float to_float(F16 value) {
#if defined(__CUDACC__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t exponent = value.bits >> 10 & 0x1FU;
  const std::uint32_t fraction = value.bits & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return fraction != 0 ? float_from_bits(0x7FFFFFFFU) : float_from_bits(sign | 0x7F800000U);
  return float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
#endif
}

/// To nearest, ties to even, beyond 65504 to infinity; every NaN becomes 0x7FFF.
KVLAB_DEVICE F16 to_f16(float value) {
#if defined(__CUDACC__)
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return {bits};
#else
  const std::uint32_t bits = bits_of(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {0x7FFF};
  if (magnitude >= 0x477FF000U) return {static_cast<std::uint16_t>(sign | 0x7C00U)};  // 65520 and more
  if (magnitude < 0x38800000U) {  // below 2^-14: a multiple of 2^-24, which adding 0.5 rounds to
    const std::uint32_t multiple = bits_of(float_from_bits(magnitude) + 0.5F) - bits_of(0.5F);
    return {static_cast<std::uint16_t>(sign | multiple)};
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + (magnitude >> 13 & 1U);
  return {static_cast<std::uint16_t>(sign | (rounded - (112U << 23)) >> 13)};
#endif
}

/// The value as it is stored: a float as it is, or rounded to bf16.
template <typename Out>
KVLAB_DEVICE Out rounded_to(float value) {
  if constexpr (std::is_same_v<Out, Bf16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

/// The stored value as a float: the reverse of rounded_to.
template <typename T>
KVLAB_DEVICE float widened(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return to_float(value);
  }
}

/// Two values in one register, `low` in the lower half, as matrix fragments hold them.
KVLAB_DEVICE std::uint32_t pack(Bf16 low, Bf16 high) { return static_cast<std::uint32_t>(high.bits) << 16 | low.bits; }
KVLAB_DEVICE std::uint32_t pack(F16 low, F16 high) { return static_cast<std::uint32_t>(high.bits) << 16 | low.bits; }

/// Rounds two values and packs them: one instruction.
KVLAB_DEVICE std::uint32_t pack_bf16(float low, float high) {
#if defined(__CUDACC__)
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return pack(to_bf16(low), to_bf16(high));
#endif
}
KVLAB_DEVICE std::uint32_t pack_f16(float low, float high) {
#if defined(__CUDACC__)
  std::uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return pack(to_f16(low), to_f16(high));
#endif
}

/// 2^x within a relative 2^-22; subnormal arguments and results count as zero.
KVLAB_DEVICE float exp2_approx(float x) {
#if defined(__CUDACC__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  constexpr float kLeastNormal = 0x1p-126F;
  const float result = std::exp2(std::fabs(x) < kLeastNormal ? 0.0F : x);
  return result < kLeastNormal ? 0.0F : result;
#endif
}

}  // namespace kvlab::cuda
