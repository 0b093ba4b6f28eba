// Our conversions, as the emulator executes them, against those of the CUDA toolkit's headers on the host.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>

#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {
namespace {

template <typename T>
std::uint16_t bits_of_half(T value) {
  std::uint16_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

TEST(CudaNumberFormats, ConvertAsTheToolkitsHeadersDo) {
  std::mt19937 random(11);
  for (int i = 0; i < 2'000'000; ++i) {
    // Random bits in the upper half; below it every second time a tie or its neighbours.
    const auto bits = static_cast<std::uint32_t>(random());
    const float value = float_from_bits(i % 2 == 0 ? bits : (bits & 0xFFFF0000U) | (0x7FFFU + bits % 3));
    ASSERT_EQ(to_bf16(value).bits, bits_of_half(__float2bfloat16_rn(value))) << value;
    ASSERT_EQ(to_f16(value).bits, bits_of_half(__float2half_rn(value))) << value;
  }
}

}  // namespace
}  // namespace kvlab::cuda
