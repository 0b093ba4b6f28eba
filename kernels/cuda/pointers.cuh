// Values and pointers as kernels hold them: vectors that move in one access, pointers that know their memory space and
// cannot be dereferenced, arrays of shared storage. memory.cuh has the accesses.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/portable.cuh"

namespace kvlab::cuda {

/// n neighbouring values that move as one: 16 bytes are one 128-bit access.
template <typename T, int n>
struct alignas(sizeof(T) * n) Vector {
  T values[n];

  KVLAB_HOST_DEVICE constexpr T& operator[](int i) { return values[i]; }
  KVLAB_HOST_DEVICE constexpr const T& operator[](int i) const { return values[i]; }
};

enum class Space { global, shared };

/// A pointer into one memory space. Only the functions of memory.cuh and mma.cuh look behind it, so that no access goes
/// unchecked and uncounted.
template <typename T, Space space>
class Pointer {
 public:
  KVLAB_HOST_DEVICE constexpr Pointer() : address_(nullptr) {}
  KVLAB_HOST_DEVICE constexpr Pointer(T* address)
      : address_(address) {}  // implicit: launchers hand over plain pointers
  template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
  KVLAB_HOST_DEVICE constexpr Pointer(Pointer<U, space> other) : address_(other.address()) {}

  KVLAB_HOST_DEVICE constexpr T* address() const { return address_; }
  KVLAB_HOST_DEVICE constexpr explicit operator bool() const { return address_ != nullptr; }
  KVLAB_HOST_DEVICE constexpr Pointer operator+(std::int64_t n) const { return Pointer(address_ + n); }
  /// The same address as another type, usually a Vector, whose alignment it must have.
  template <typename U>
  KVLAB_HOST_DEVICE auto as() const {
    using Qualified = std::conditional_t<std::is_const_v<T>, const U, U>;
    return Pointer<Qualified, space>(reinterpret_cast<Qualified*>(address_));
  }

 private:
  T* address_;
};

template <typename T>
using Global = Pointer<T, Space::global>;
template <typename T>
using Shared = Pointer<T, Space::shared>;

/// An array in a kernel's shared storage, 16-byte aligned.
template <typename T, int n>
class alignas(16) SharedArray {
 public:
  static constexpr int kSize = n;
  KVLAB_HOST_DEVICE Shared<T> at(int i) { return Shared<T>(values_ + i); }

 private:
  T values_[n];
};

}  // namespace kvlab::cuda
