// Atomic updates of global and shared memory. They return the value before the update.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/pointers.cuh"

#if !defined(__CUDACC__)
#include <atomic>
#endif

namespace kvlab::cuda {

#if !defined(__CUDACC__)
namespace raw {
template <typename T, Space space>
std::atomic_ref<T> checked_atomic(Pointer<T, space> at, int line) {
  using emulation::AccessKind;
  emulation::access(space == Space::global ? AccessKind::global_atomic : AccessKind::shared_atomic, at.address(),
                    sizeof(T), true, line);
  return std::atomic_ref<T>(*at.address());
}
}  // namespace raw
#endif

/// T: int, unsigned, unsigned long long or float. Orders nothing else.
template <typename T, Space space>
KVLAB_DEVICE T atomic_add(Pointer<T, space> at, std::type_identity_t<T> value,
                          [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  return atomicAdd(at.address(), value);
#else
  return raw::checked_atomic(at, line).fetch_add(value, std::memory_order_relaxed);
#endif
}

/// T: int, unsigned or unsigned long long. Orders nothing else.
template <typename T, Space space>
KVLAB_DEVICE T atomic_max(Pointer<T, space> at, std::type_identity_t<T> value,
                          [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  return atomicMax(at.address(), value);
#else
  std::atomic_ref<T> cell = raw::checked_atomic(at, line);
  T now = cell.load(std::memory_order_relaxed);
  while (now < value && !cell.compare_exchange_weak(now, value, std::memory_order_relaxed)) {
  }
  return now;
#endif
}

/// Writes `value` where `expected` stands. T: int, unsigned or unsigned long long. Orders nothing else.
template <typename T, Space space>
KVLAB_DEVICE T atomic_compare_exchange(Pointer<T, space> at, std::type_identity_t<T> expected,
                                       std::type_identity_t<T> value, [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  return atomicCAS(at.address(), expected, value);
#else
  raw::checked_atomic(at, line).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  return expected;
#endif
}

/// Adds 1, with order across the whole grid: what this thread wrote before is seen by whoever gets a later ticket. For
/// "the last block merges"; the other threads of a block need a barrier before it and after it.
template <typename T>
KVLAB_DEVICE T take_ticket(Global<T> counter, [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  __threadfence();
  const T ticket = atomicAdd(counter.address(), T{1});
  __threadfence();
  return ticket;
#else
  return raw::checked_atomic(counter, line).fetch_add(T{1}, std::memory_order_acq_rel);
#endif
}

}  // namespace kvlab::cuda
