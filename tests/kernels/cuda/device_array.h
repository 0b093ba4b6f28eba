// Arrays in emulated device memory, for tests: filled from and read back to vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/pointers.cuh"
#include "kernels/cuda_emulation/device.h"

namespace kvlab::cuda::test {

/// n values of device memory under a name; unwritten bytes are 0xFF.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(const std::string& name, std::size_t n)
      : n_(n), memory_(static_cast<T*>(emulation::Device::current().allocate(n * sizeof(T), name))) {}
  DeviceArray(const std::string& name, const std::vector<T>& values) : DeviceArray(name, values.size()) {
    if (n_ > 0) std::memcpy(static_cast<void*>(memory_), values.data(), n_ * sizeof(T));
  }
  ~DeviceArray() { emulation::Device::current().release(memory_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return memory_; }
  Global<T> pointer() const { return Global<T>(memory_); }
  std::vector<T> values() const { return std::vector<T>(memory_, memory_ + n_); }

 private:
  std::size_t n_;
  T* memory_;
};

}  // namespace kvlab::cuda::test
