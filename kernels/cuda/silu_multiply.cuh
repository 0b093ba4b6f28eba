// The body of the SwiGLU gate: out = silu(gate) * up, element by element.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/memory.cuh"

namespace kvlab::cuda {

constexpr std::int64_t kSiluMultiplyBlock = 256;

/// out[r, j] = silu(gate_up[r, j]) * gate_up[r, width + j].
/// Grid: any number of blocks; block: kSiluMultiplyBlock threads; no shared memory.
/// A thread takes every (grid * block)-th element of the flattened output, so neighbours read neighbours.
/// Reads each element of gate_up once, writes each element of out once: 12 bytes an output element.
/// Needs out apart from gate_up.
KVLAB_KERNEL void silu_multiply_elementwise_kernel(Global<const float> gate_up,  // [n_rows, 2 * width]
                                                   std::int64_t n_rows, std::int64_t width,
                                                   Global<float> out) {  // [n_rows, width]
  const std::int64_t n_values = n_rows * width;
  wait_for_previous_launch();
  const std::int64_t step = std::int64_t{grid_size_x()} * block_size_x();
  for (std::int64_t i = std::int64_t{block_x()} * block_size_x() + thread_x(); i < n_values; i += step) {
    const std::int64_t row = i / width;
    const std::int64_t gate_at = row * 2 * width + (i - row * width);
    const float gate = load_global(gate_up + gate_at);
    const float up = load_global(gate_up + (gate_at + width));
    store_global(out + i, gate / (1.0F + std::exp(-gate)) * up);
  }
}

}  // namespace kvlab::cuda
