// cp.async: 16-byte copies from global to shared memory that pass by the registers. Copies are gathered in groups; a
// thread sees its own copies after its wait, and those of others after a barrier that follows the wait.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/pointers.cuh"

namespace kvlab::cuda {

/// Starts a copy of 16 bytes. Only the first `n_bytes` (0 to 16) are read; the rest arrives as zeros. `to` and `from`
/// are aligned to 16 bytes, and `from` must point into a buffer only when n_bytes > 0.
template <typename T, typename U>
KVLAB_DEVICE void copy_async16(Shared<T> to, Global<U> from, int n_bytes = 16,
                               [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to.address()));
  const auto global = __cvta_generic_to_global(from.address());
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(n_bytes) : "memory");
#else
  emulation::access(emulation::AccessKind::copy_destination, to.address(), 16, true, line);
  emulation::access(emulation::AccessKind::copy_source, from.address(), n_bytes, n_bytes > 0, line);
  emulation::AsyncCopy copy{};
  copy.destination = to.address();
  copy.line = line;
  if (n_bytes > 0) std::memcpy(copy.bytes, from.address(), static_cast<std::size_t>(n_bytes));
  std::memset(static_cast<void*>(to.address()), 0xFF, 16);  // until the wait, nobody may rely on what stands there
  emulation::begin_copy(copy);
#endif
}

/// Closes the group of the copies that this thread has started since the last commit; it may be empty.
KVLAB_DEVICE void commit_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulation::commit_copies();
#endif
}

/// Waits until at most the `n_pending` newest groups of this thread are still under way.
template <int n_pending>
KVLAB_DEVICE void wait_for_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_group %0;" ::"n"(n_pending) : "memory");
#else
  emulation::AsyncCopy copy;
  while (emulation::take_arrived_copy(n_pending, &copy)) std::memcpy(copy.destination, copy.bytes, 16);
#endif
}

}  // namespace kvlab::cuda
