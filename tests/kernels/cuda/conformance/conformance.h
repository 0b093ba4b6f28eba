// Kernels that do one primitive each, so that the emulator and a GPU can be held to the same tables.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace kvlab::cuda::conformance {

// All pointers are device pointers. One warp per block unless said otherwise; i is the lane.

/// Block c multiplies the fragments of case c: a [n_cases, 32, 4], b [n_cases, 32, 2], d [n_cases, 32, 4], in place.
void launch_multiply(bool f16, int n_cases, const std::uint32_t* a, const std::uint32_t* b, float* d,
                     CUstream_st* stream);

/// Registers of x1, x2, x4 and of the transposed x1, x2, x4, in this order. Lane i points to row (5 i + 3) % 32 of tile
/// [32, 8]; out [14, 32].
constexpr int kMatrixRegisters = 14;
void launch_load_matrix(const std::uint16_t* tile, std::uint32_t* out, CUstream_st* stream);

/// out [7, 32]: of the lane's value 100 + i, by index (3 i + 1, width 8), xor 5, up 3 and down 3 (width 16); a 64-bit
/// xor 1 of i << 40, its high word; ballot of i % 3 == 0; ballot of i % 2 == 0 among the lanes below 20 (others 0).
constexpr int kWarpRows = 7;
void launch_warp_operations(std::uint32_t* out, CUstream_st* stream);

/// in [32, 3]; out [4, 32, 3]: group_sum and group_max over 32 and over 8 lanes.
void launch_reductions(const float* in, float* out, CUstream_st* stream);

/// Copies the first i % 17 bytes of row i of in [32, 16] asynchronously, in two groups; out [32, 16].
void launch_async_copy(const std::uint8_t* in, std::uint8_t* out, CUstream_st* stream);

/// n values (any number of blocks' worth): bits of bf16, f16, exp2_approx, and of (bf16 low: x, high: -x) and (f16
/// ...).
void launch_conversions(const float* in, std::int64_t n, std::uint16_t* bf16, std::uint16_t* f16, float* exp2,
                        std::uint32_t* packed_bf16, std::uint32_t* packed_f16, CUstream_st* stream);
/// All 65,536 halves and bf16 widened; out [2, 65536].
void launch_widening(float* out, CUstream_st* stream);

/// 4 blocks of 64 threads: adds, takes the maximum and draws tickets in counters [3]; tickets [256].
void launch_atomics(unsigned* counters, unsigned* tickets, float* sum, CUstream_st* stream);

}  // namespace kvlab::cuda::conformance
