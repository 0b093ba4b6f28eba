// SplitMix64 (Steele, Lea and Flood 2014): the same draws on every machine and with every standard library.
#pragma once

#include <cstdint>

namespace kvlab {

constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15U;

/// A bijection that scatters neighbouring numbers over all 64-bit ones: what a stream whose state is `x` draws next.
constexpr std::uint64_t scattered(std::uint64_t x) {
  x += kSplitMixStep;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// The next draw of the stream that began with `state` = its seed.
constexpr std::uint64_t next_random(std::uint64_t& state) {
  const std::uint64_t draw = scattered(state);
  state += kSplitMixStep;
  return draw;
}

}  // namespace kvlab
