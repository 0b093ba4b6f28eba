// Activation functions over dense f32 rows, with a vectorised exponential.
#pragma once

#include <cstdint>

#include "kernels/cpu/share.h"

namespace kvlab::cpu {

/// out[:, j] = silu(gate_up[:, j]) * gate_up[:, width + j]. gate_up [n_rows, 2 * width], out [n_rows, width].
/// Computes the rows of `share`.
void silu_multiply(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out, Share share);
int silu_multiply_lanes(std::int64_t n_rows, std::int64_t width, int n_threads);

/// x = gelu(x) in place, the tanh form. x [n_values]. Computes the values of `share`.
void gelu(float* x, std::int64_t n_values, Share share);
int gelu_lanes(std::int64_t n_values, int n_threads);

}  // namespace kvlab::cpu
