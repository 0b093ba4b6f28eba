// What lanes of a warp do together. All lanes of the mask must come to the same call; none of these orders memory
// (warp_barrier does).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/portable.cuh"

namespace kvlab::cuda {

namespace raw {

/// Shuffles move 4 or 8 bytes.
template <typename T>
using ShuffleWord = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;

template <typename T>
KVLAB_DEVICE ShuffleWord<T> shuffle_word(const T& value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  ShuffleWord<T> word = 0;
  memcpy(&word, &value, sizeof(T));
  return word;
}
template <typename T>
KVLAB_DEVICE T shuffle_value(const ShuffleWord<T>& word) {
  T value;
  memcpy(&value, &word, sizeof(T));
  return value;
}

#if !defined(__CUDACC__)
template <typename T>
T emulated_shuffle(emulation::Shuffle kind, T value, int operand, int width, LaneMask lanes, int line) {
  const std::uint64_t word = emulation::shuffle(kind, shuffle_word(value), operand, width, lanes, line);
  return shuffle_value<T>(static_cast<ShuffleWord<T>>(word));
}
#endif

}  // namespace raw

// Shuffles within aligned groups of `width` lanes (a power of two up to 32). T: at most 8 bytes, trivially copyable.
// The source lane must be in the mask; where it lies outside the group, a lane keeps its own value.

/// The value of lane `source` of the group, counted modulo width.
template <typename T>
KVLAB_DEVICE T shuffle(T value, int source, int width = kWarpSize, LaneMask lanes = kAllLanes,
                       [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  return raw::shuffle_value<T>(__shfl_sync(lanes, raw::shuffle_word(value), source, width));
#else
  return raw::emulated_shuffle(emulation::Shuffle::index, value, source, width, lanes, line);
#endif
}

/// The value of the lane whose number differs in the bits of `mask`.
template <typename T>
KVLAB_DEVICE T shuffle_xor(T value, int mask, int width = kWarpSize, LaneMask lanes = kAllLanes,
                           [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  return raw::shuffle_value<T>(__shfl_xor_sync(lanes, raw::shuffle_word(value), mask, width));
#else
  return raw::emulated_shuffle(emulation::Shuffle::exclusive_or, value, mask, width, lanes, line);
#endif
}

/// The value of the lane `distance` below.
template <typename T>
KVLAB_DEVICE T shuffle_up(T value, int distance, int width = kWarpSize, LaneMask lanes = kAllLanes,
                          [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  return raw::shuffle_value<T>(__shfl_up_sync(lanes, raw::shuffle_word(value), static_cast<unsigned>(distance), width));
#else
  return raw::emulated_shuffle(emulation::Shuffle::up, value, distance, width, lanes, line);
#endif
}

/// The value of the lane `distance` above.
template <typename T>
KVLAB_DEVICE T shuffle_down(T value, int distance, int width = kWarpSize, LaneMask lanes = kAllLanes,
                            [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  return raw::shuffle_value<T>(
      __shfl_down_sync(lanes, raw::shuffle_word(value), static_cast<unsigned>(distance), width));
#else
  return raw::emulated_shuffle(emulation::Shuffle::down, value, distance, width, lanes, line);
#endif
}

/// A bit for each lane of the mask whose predicate holds.
KVLAB_DEVICE LaneMask ballot(bool predicate, LaneMask lanes = kAllLanes, [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  return __ballot_sync(lanes, predicate);
#else
  return emulation::ballot(predicate, lanes, line);
#endif
}
KVLAB_DEVICE bool any_lane(bool predicate, LaneMask lanes = kAllLanes, int line = __builtin_LINE()) {
  return ballot(predicate, lanes, line) != 0;
}
KVLAB_DEVICE bool all_lanes(bool predicate, LaneMask lanes = kAllLanes, int line = __builtin_LINE()) {
  return ballot(predicate, lanes, line) == lanes;
}

// Reductions over aligned groups of `width` lanes of a whole warp, in the order of a butterfly from width / 2 down to
// 1: every lane gets the result, and device and emulator the same bits.

template <int width, int n>
KVLAB_DEVICE void group_sum(float (&values)[n], [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  KVLAB_UNROLL
  for (int distance = width / 2; distance > 0; distance /= 2) {
    KVLAB_UNROLL
    for (int i = 0; i < n; ++i) values[i] += __shfl_xor_sync(kAllLanes, values[i], distance);
  }
#else
  emulation::reduce(emulation::Reduction::sum, values, n, width, line);
#endif
}

/// NaN only where all values are NaN.
template <int width, int n>
KVLAB_DEVICE void group_max(float (&values)[n], [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  KVLAB_UNROLL
  for (int distance = width / 2; distance > 0; distance /= 2) {
    KVLAB_UNROLL
    for (int i = 0; i < n; ++i) values[i] = fmaxf(values[i], __shfl_xor_sync(kAllLanes, values[i], distance));
  }
#else
  emulation::reduce(emulation::Reduction::maximum, values, n, width, line);
#endif
}

template <int width>
KVLAB_DEVICE float group_sum(float value, int line = __builtin_LINE()) {
  float values[1] = {value};
  group_sum<width>(values, line);
  return values[0];
}
template <int width>
KVLAB_DEVICE float group_max(float value, int line = __builtin_LINE()) {
  float values[1] = {value};
  group_max<width>(values, line);
  return values[0];
}

}  // namespace kvlab::cuda
