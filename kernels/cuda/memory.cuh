// Access to global and shared memory. On the host every call is checked and counted under the caller's line; on the
// device it is one instruction, and the line costs nothing. async_copy.cuh and atomics.cuh have the rest.
#pragma once

#include <type_traits>

#include "kernels/cuda/pointers.cuh"
#include "kernels/cuda/raw_access.cuh"

namespace kvlab::cuda {

// Loads and stores take 1, 2, 4, 8 or 16 bytes, aligned to their size. The forms with `_if` are for lanes beyond an
// edge: a lane that is not active touches nothing, but its place in the warp's request is kept, so that counts stay
// exact. Pass a predicate instead of skipping the call.

template <typename T>
KVLAB_DEVICE std::remove_const_t<T> load_global(Global<T> from, int line = __builtin_LINE()) {
  return raw::load_global<std::remove_const_t<T>>(from.address(), line);
}
template <typename T>
KVLAB_DEVICE std::remove_const_t<T> load_global_if(bool active, Global<T> from,
                                                   std::type_identity_t<std::remove_const_t<T>> otherwise,
                                                   int line = __builtin_LINE()) {
  if (!active) raw::skip(raw::Access::global_load, line);
  return active ? raw::load_global<std::remove_const_t<T>>(from.address(), line) : otherwise;
}

/// Through the read-only path: the kernel promises that nobody writes these bytes while it runs.
template <typename T>
KVLAB_DEVICE std::remove_const_t<T> load_global_constant(Global<T> from, int line = __builtin_LINE()) {
  return raw::load_global_constant<std::remove_const_t<T>>(from.address(), line);
}
template <typename T>
KVLAB_DEVICE std::remove_const_t<T> load_global_constant_if(bool active, Global<T> from,
                                                            std::type_identity_t<std::remove_const_t<T>> otherwise,
                                                            int line = __builtin_LINE()) {
  if (!active) raw::skip(raw::Access::global_load_constant, line);
  return active ? raw::load_global_constant<std::remove_const_t<T>>(from.address(), line) : otherwise;
}

/// The same for bytes that no block asks for again: 16 bytes pass by L1, which stays free for what is shared.
template <typename T>
KVLAB_DEVICE std::remove_const_t<T> load_global_streamed_if(bool active, Global<T> from,
                                                            std::type_identity_t<std::remove_const_t<T>> otherwise,
                                                            int line = __builtin_LINE()) {
  return raw::load_global_streamed_if<std::remove_const_t<T>>(active, from.address(), otherwise, line);
}

template <typename T>
KVLAB_DEVICE void store_global(Global<T> to, const std::type_identity_t<T>& value, int line = __builtin_LINE()) {
  raw::store_global<T>(to.address(), value, line);
}
template <typename T>
KVLAB_DEVICE void store_global_if(bool active, Global<T> to, const std::type_identity_t<T>& value,
                                  int line = __builtin_LINE()) {
  if (active) {
    raw::store_global<T>(to.address(), value, line);
  } else {
    raw::skip(raw::Access::global_store, line);
  }
}

template <typename T>
KVLAB_DEVICE std::remove_const_t<T> load_shared(Shared<T> from, int line = __builtin_LINE()) {
  return raw::load_shared<std::remove_const_t<T>>(from.address(), line);
}
template <typename T>
KVLAB_DEVICE std::remove_const_t<T> load_shared_if(bool active, Shared<T> from,
                                                   std::type_identity_t<std::remove_const_t<T>> otherwise,
                                                   int line = __builtin_LINE()) {
  if (!active) raw::skip(raw::Access::shared_load, line);
  return active ? raw::load_shared<std::remove_const_t<T>>(from.address(), line) : otherwise;
}
template <typename T>
KVLAB_DEVICE void store_shared(Shared<T> to, const std::type_identity_t<T>& value, int line = __builtin_LINE()) {
  raw::store_shared<T>(to.address(), value, line);
}
template <typename T>
KVLAB_DEVICE void store_shared_if(bool active, Shared<T> to, const std::type_identity_t<T>& value,
                                  int line = __builtin_LINE()) {
  if (active) {
    raw::store_shared<T>(to.address(), value, line);
  } else {
    raw::skip(raw::Access::shared_store, line);
  }
}

}  // namespace kvlab::cuda
