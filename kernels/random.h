// Random numbers by formula: the same draws on every machine, with every standard library, on the host and in a kernel.
// SplitMix64 (Steele, Lea and Flood 2014) as a stream, and as a function of a counter.
#pragma once

#include <cstdint>

#include "kernels/unfused.h"

namespace kvlab {

constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15U;

/// A bijection that scatters neighbouring numbers over all 64-bit ones: what a stream whose state is `x` draws next.
KVLAB_HOST_DEVICE constexpr std::uint64_t scattered(std::uint64_t x) {
  x += kSplitMixStep;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// The next draw of the stream that began with `state` = its seed.
KVLAB_HOST_DEVICE constexpr std::uint64_t next_random(std::uint64_t& state) {
  const std::uint64_t draw = scattered(state);
  state += kSplitMixStep;
  return draw;
}

/// A tensor of nearly normal values. Element i depends on these numbers and on i alone, so any part of it can be made
/// anywhere, in any order, with the same bits.
struct RandomValues {
  std::uint64_t stream = 0;  // which tensor of which seed
  double mean = 0.0;
  double deviation = 1.0;
};

/// Element i: the sum of four 16-bit uniforms, which is exact, scaled by single roundings that host and device share.
KVLAB_HOST_DEVICE inline float random_value(const RandomValues& values, std::uint64_t i) {
  const std::uint64_t bits = scattered(values.stream ^ scattered(i));
  const auto sum =
      static_cast<std::int64_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
  constexpr double kScale =
      1.7320508075688772 / 65536.0;  // a uniform's deviation is its width / sqrt(12); sqrt(4) of them
  const auto drawn = static_cast<float>(static_cast<double>(sum - 2 * 65535) * kScale);  // mean 0, deviation 1
  return static_cast<float>(multiply_add_unfused(values.deviation, static_cast<double>(drawn), values.mean));
}

}  // namespace kvlab
