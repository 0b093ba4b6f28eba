// mma.sync m16n8k16: the last lane to come multiplies for the whole warp. Products are exact; each element of the
// result is one sum in float64, rounded once. The device's order and rounding of the sum are not specified.
#include <cstdint>

#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda_emulation/block.h"
#include "kernels/cuda_emulation/hooks.h"

namespace kvlab::cuda::emulation {

namespace {

constexpr int kM = 16;
constexpr int kN = 8;
constexpr int kK = 16;

struct MatrixOperand {
  const std::uint32_t* a;
  const std::uint32_t* b;
  float* d;
};

float unpack(MatrixType type, std::uint32_t packed, int half) {
  const auto bits = static_cast<std::uint16_t>(packed >> (16 * half));
  return type == MatrixType::bf16 ? to_float(Bf16{bits}) : to_float(F16{bits});
}

struct Tiles {
  float a[kM][kK];
  float b[kK][kN];
};

/// Collects the fragments: see mma.cuh for who holds what.
void gather(MatrixType type, void* const (&operands)[kWarpSize], Tiles* tiles) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto* mine = static_cast<const MatrixOperand*>(operands[lane]);
    const int group = lane / 4;
    const int pair = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        tiles->a[group + i % 2 * 8][pair + i / 2 * 8 + half] = unpack(type, mine->a[i], half);
      }
      for (int i = 0; i < 2; ++i) tiles->b[pair + i * 8 + half][group] = unpack(type, mine->b[i], half);
    }
  }
}

void combine_matrices(void* const (&operands)[kWarpSize], std::uint32_t, int parameter) {
  Tiles tiles;
  gather(static_cast<MatrixType>(parameter), operands, &tiles);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    float* d = static_cast<const MatrixOperand*>(operands[lane])->d;
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8;
      const int column = lane % 4 * 2 + i % 2;
      double sum = static_cast<double>(d[i]);
      for (int k = 0; k < kK; ++k)
        sum += static_cast<double>(tiles.a[row][k]) * static_cast<double>(tiles.b[k][column]);
      d[i] = static_cast<float>(sum);
    }
  }
}

}  // namespace

void multiply_matrices(MatrixType type, const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], float (&d)[4],
                       int line) {
  MatrixOperand operand{a, b, d};
  Block::as_emulator([&](Block& block) {
    block.meet_warp(MeetingKind::multiply, kWholeWarp, static_cast<int>(type), &operand, combine_matrices, line);
  });
}

}  // namespace kvlab::cuda::emulation
