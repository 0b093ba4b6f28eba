// Launches products of few rows with a weight, what a step of decoding is made of: the weight is streamed once whatever
// the number of rows. Larger products are cuBLAS's. Includes no CUDA header.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t

namespace kvlab::cuda {

constexpr std::int64_t kGemvMaxRows = 8;

/// y = x W^T, or y = silu(x G^T) * (x U^T) where W is the rows of G and then those of U. All pointers are to device
/// memory. Joined weights (Q, K and V) are one weight here.
struct GemvCall {
  const void* weight = nullptr;  // [n_out, n_in], of `dtype`
  DType dtype = DType::f32;      // bf16: x is rounded to bf16 as well, products are summed in f32
  std::int64_t n_out = 0;        // gate_up: even
  std::int64_t n_in = 0;
  const float* x = nullptr;  // [n_rows, n_in], rows x_stride apart
  std::int64_t x_stride = 0;
  std::int64_t n_rows = 0;  // 1 … kGemvMaxRows
  float* y = nullptr;       // [n_rows, n_out], or [n_rows, n_out / 2] for gate_up; rows y_stride apart; not x
  std::int64_t y_stride = 0;
  const float* bias = nullptr;         // [n_out] or null
  const float* norm_weight = nullptr;  // [n_in] or null: x is RMS-normalised first, in f32
  float norm_eps = 0.0F;
  bool accumulate = false;  // what y holds is added last
  bool gate_up = false;
  /// The launch may start before the one before it has ended; it then reads weights, norm_weight and bias before that
  /// one's writes can be seen.
  bool overlaps_previous = false;
};

/// Whether launch_gemv runs products of so many rows.
constexpr bool gemv_takes(std::int64_t n_rows) { return n_rows >= 1 && n_rows <= kGemvMaxRows; }

/// Returns at once; the work is done in the order of `stream` (null: the default one). Throws InputError for rows,
/// sizes or strides that it cannot run, std::runtime_error when the launch is refused.
void launch_gemv(const GemvCall& call, CUstream_st* stream);

}  // namespace kvlab::cuda
