// Values to and from the memory of a runtime.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/cuda/runtime.h"

namespace kvlab::cuda::conformance {

/// n values in new memory of the runtime, which ends with it.
template <typename T>
T* upload(Runtime& runtime, const std::string& name, const T* values, std::size_t n) {
  void* memory = runtime.allocate(n * sizeof(T), name, nullptr);
  runtime.copy_to_device(memory, values, n * sizeof(T), nullptr);
  return static_cast<T*>(memory);
}

template <typename T>
void download(Runtime& runtime, const T* memory, std::size_t n, T* values) {
  runtime.copy_to_host(values, memory, n * sizeof(T), nullptr);
  runtime.synchronize(nullptr);
}

}  // namespace kvlab::cuda::conformance
