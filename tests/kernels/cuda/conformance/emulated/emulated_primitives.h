// Primitives of conformance.h on the emulator, in a library of their own: a program that nvcc has compiled them into
// has functions of the same names for the device.
#pragma once

#include <cstdint>

namespace kvlab::cuda::conformance {

/// All pointers are host memory, shaped as in conformance.h. An error of the emulator ends the program.
struct EmulatedPrimitives {
  void (*multiply)(bool f16, int n_cases, const std::uint32_t* a, const std::uint32_t* b, float* d);
  void (*reductions)(const float* in, float* out);
  void (*conversions)(const float* in, std::int64_t n, std::uint16_t* bf16, std::uint16_t* f16, float* exp2,
                      std::uint32_t* packed_bf16, std::uint32_t* packed_f16);
};

constexpr const char* kEmulatedPrimitivesFile = "libkvlab_emulated_primitives.so";
constexpr const char* kEmulatedPrimitivesSymbol = "kvlab_emulated_primitives";

}  // namespace kvlab::cuda::conformance
