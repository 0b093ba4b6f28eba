// What host code may call of the CUDA side. Includes no CUDA header, so that any compiler reads it.
#pragma once

#include <cstdint>

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t

namespace kvlab::cuda {

/// out[:, j] = silu(gate_up[:, j]) * gate_up[:, width + j]. Device pointers: gate_up [n_rows, 2 * width],
/// out [n_rows, width], apart. Returns at once; the work is done in the order of `stream` (null: the default one).
/// Throws std::runtime_error when the launch is refused.
void launch_silu_multiply_elementwise(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out,
                                      CUstream_st* stream);

}  // namespace kvlab::cuda
