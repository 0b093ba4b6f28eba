// Single accesses as instructions: the device's half and the emulator's half of memory.cuh, which alone includes this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/portable.cuh"

namespace kvlab::cuda::raw {

#if defined(__CUDACC__)

/// The built-in type whose load and store is one instruction of so many bytes.
template <std::size_t bytes>
struct Word;
template <>
struct Word<1> {
  using Type = unsigned char;
};
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned int;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};
template <typename T>
using WordOf = typename Word<sizeof(T)>::Type;

// By value: a copy out of the memory behind a reference would become single bytes.
template <typename T>
KVLAB_DEVICE T from_word(WordOf<T> word) {
  T value;
  memcpy(&value, &word, sizeof(T));
  return value;
}
template <typename T>
KVLAB_DEVICE WordOf<T> to_word(const T& value) {
  WordOf<T> word;
  memcpy(&word, &value, sizeof(T));
  return word;
}

template <typename T>
KVLAB_DEVICE const WordOf<T>* global_word(const T* address) {
  __builtin_assume(__isGlobal(address));
  return reinterpret_cast<const WordOf<T>*>(address);
}

template <typename T>
KVLAB_DEVICE T load_global(const T* address, int) {
  return from_word<T>(*global_word(address));
}
template <typename T>
KVLAB_DEVICE T load_global_constant(const T* address, int) {
  return from_word<T>(__ldg(global_word(address)));
}
// One predicated instruction that fills the registers of `otherwise`: nothing waits for it before its value is used.
// Not through the read-only path, so that the assembler keeps it before a wait for the previous launch.
template <typename T>
KVLAB_DEVICE T load_global_streamed_if(bool active, const T* address, const T& otherwise, int line) {
  if constexpr (sizeof(T) != 16) {
    return active ? load_global_constant(address, line) : otherwise;
  } else {
    uint4 word = to_word(otherwise);
    asm volatile(
        "{ .reg .pred active; setp.ne.u32 active, %4, 0;"
        " @active ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%5]; }"
        : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w)
        : "r"(static_cast<unsigned>(active)), "l"(__cvta_generic_to_global(address))
        : "memory");
    return from_word<T>(word);
  }
}
template <typename T>
KVLAB_DEVICE void store_global(T* address, const T& value, int) {
  *const_cast<WordOf<T>*>(global_word(address)) = to_word(value);
}
template <typename T>
KVLAB_DEVICE T load_shared(const T* address, int) {
  return from_word<T>(*reinterpret_cast<const WordOf<T>*>(address));
}
template <typename T>
KVLAB_DEVICE void store_shared(T* address, const T& value, int) {
  *reinterpret_cast<WordOf<T>*>(address) = to_word(value);
}

enum class Access { global_load, global_load_constant, global_store, shared_load, shared_store };
/// A lane that takes no part in its warp's access.
KVLAB_DEVICE void skip(Access, int) {}

#else

using Access = emulation::AccessKind;

KVLAB_DEVICE void skip(Access kind, int line) { emulation::access(kind, nullptr, 0, false, line); }

template <typename T>
KVLAB_DEVICE T checked_load(Access kind, const T* address, int line) {
  emulation::access(kind, address, sizeof(T), true, line);
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}
template <typename T>
KVLAB_DEVICE void checked_store(Access kind, T* address, const T& value, int line) {
  emulation::access(kind, address, sizeof(T), true, line);
  std::memcpy(address, &value, sizeof(T));
}

template <typename T>
KVLAB_DEVICE T load_global(const T* address, int line) {
  return checked_load(Access::global_load, address, line);
}
template <typename T>
KVLAB_DEVICE T load_global_constant(const T* address, int line) {
  return checked_load(Access::global_load_constant, address, line);
}
template <typename T>
KVLAB_DEVICE T load_global_streamed_if(bool active, const T* address, const T& otherwise, int line) {
  if (active) return load_global_constant(address, line);
  skip(Access::global_load_constant, line);
  return otherwise;
}
template <typename T>
KVLAB_DEVICE void store_global(T* address, const T& value, int line) {
  checked_store(Access::global_store, address, value, line);
}
template <typename T>
KVLAB_DEVICE T load_shared(const T* address, int line) {
  return checked_load(Access::shared_load, address, line);
}
template <typename T>
KVLAB_DEVICE void store_shared(T* address, const T& value, int line) {
  checked_store(Access::shared_store, address, value, line);
}

#endif

}  // namespace kvlab::cuda::raw
