// Tensor cores: mma.sync m16n8k16 with f32 accumulators, and ldmatrix, which loads its operands from shared memory. All
// 32 lanes of a warp take part. With g = lane / 4 and t = lane % 4, a lane holds (two values a register, lower half
// first)
//   A [16 x 16]: a[0] = (g, 2t..), a[1] = (g + 8, 2t..), a[2] = (g, 2t + 8..), a[3] = (g + 8, 2t + 8..)
//   B [16 x 8]:  b[0] = (2t.., g), b[1] = (2t + 8.., g)
//   D [16 x 8]:  d[0], d[1] = (g, 2t..), d[2], d[3] = (g + 8, 2t..)
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/pointers.cuh"

namespace kvlab::cuda {

/// d += a b. T: Bf16 or F16, the type of a and b.
template <typename T>
KVLAB_DEVICE void multiply_accumulate(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                                      [[maybe_unused]] int line = __builtin_LINE()) {
  static_assert(std::is_same_v<T, Bf16> || std::is_same_v<T, F16>);
#if defined(__CUDACC__)
  if constexpr (std::is_same_v<T, Bf16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else
  constexpr auto kType = std::is_same_v<T, Bf16> ? emulation::MatrixType::bf16 : emulation::MatrixType::f16;
  emulation::multiply_matrices(kType, a, b, d, line);
#endif
}

#if !defined(__CUDACC__)
namespace raw {
/// Lane i gives the address of row i % 8 of matrix i / 8, for the first 8 n lanes. Each lane reads what it receives
/// itself, so that a row written by another lane without a barrier is a race.
template <int n, bool transposed>
void emulated_load_matrix(const void* row, std::uint32_t (&out)[n], int line) {
  const int lane = emulation::thread_x() % kWarpSize;
  emulation::access(emulation::AccessKind::matrix_load, row, 16, lane < 8 * n, line);
  const void* rows[kWarpSize];
  emulation::exchange_addresses(row, rows, line);
  for (int matrix = 0; matrix < n; ++matrix) {
    const int first = transposed ? 2 * (lane % 4) : lane / 4;
    const int column = transposed ? lane / 4 : 2 * (lane % 4);
    std::uint16_t low;
    std::uint16_t high;
    const auto value_at = [&](int r, int c) { return static_cast<const char*>(rows[8 * matrix + r]) + 2 * c; };
    std::memcpy(&low, value_at(first, column), 2);
    std::memcpy(&high, transposed ? value_at(first + 1, column) : value_at(first, column + 1), 2);
    out[matrix] = static_cast<std::uint32_t>(high) << 16 | low;
  }
}
}  // namespace raw
#endif

// ldmatrix: n matrices of 8 x 8 values of 2 bytes. Lane i < 8 n points to the 16 bytes of row i % 8 of matrix i / 8;
// the pointers of other lanes are ignored. Register m of a lane gets the values (g, 2t) and (g, 2t + 1) of matrix m;
// the transposed forms give it (2t, g) and (2t + 1, g).

template <typename T>
KVLAB_DEVICE void load_matrix_x1(std::uint32_t (&out)[1], Shared<T> row, [[maybe_unused]] int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 2);
#if defined(__CUDACC__)
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row.address()));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(out[0]) : "r"(at) : "memory");
#else
  raw::emulated_load_matrix<1, false>(row.address(), out, line);
#endif
}

template <typename T>
KVLAB_DEVICE void load_matrix_x2(std::uint32_t (&out)[2], Shared<T> row, [[maybe_unused]] int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 2);
#if defined(__CUDACC__)
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row.address()));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(out[0]), "=r"(out[1])
               : "r"(at)
               : "memory");
#else
  raw::emulated_load_matrix<2, false>(row.address(), out, line);
#endif
}

template <typename T>
KVLAB_DEVICE void load_matrix_x4(std::uint32_t (&out)[4], Shared<T> row, [[maybe_unused]] int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 2);
#if defined(__CUDACC__)
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row.address()));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at)
               : "memory");
#else
  raw::emulated_load_matrix<4, false>(row.address(), out, line);
#endif
}

template <typename T>
KVLAB_DEVICE void load_matrix_transposed_x1(std::uint32_t (&out)[1], Shared<T> row,
                                            [[maybe_unused]] int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 2);
#if defined(__CUDACC__)
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row.address()));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(out[0]) : "r"(at) : "memory");
#else
  raw::emulated_load_matrix<1, true>(row.address(), out, line);
#endif
}

template <typename T>
KVLAB_DEVICE void load_matrix_transposed_x2(std::uint32_t (&out)[2], Shared<T> row,
                                            [[maybe_unused]] int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 2);
#if defined(__CUDACC__)
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row.address()));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(out[0]), "=r"(out[1])
               : "r"(at)
               : "memory");
#else
  raw::emulated_load_matrix<2, true>(row.address(), out, line);
#endif
}

template <typename T>
KVLAB_DEVICE void load_matrix_transposed_x4(std::uint32_t (&out)[4], Shared<T> row,
                                            [[maybe_unused]] int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 2);
#if defined(__CUDACC__)
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row.address()));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at)
               : "memory");
#else
  raw::emulated_load_matrix<4, true>(row.address(), out, line);
#endif
}

}  // namespace kvlab::cuda
