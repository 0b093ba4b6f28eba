// The body of GELU in place, element by element.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/memory.cuh"

namespace kvlab::cuda {

constexpr std::int64_t kGeluBlock = 256;

/// x = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). Grid: any number of blocks; block: kGeluBlock threads; no
/// shared memory. A thread takes every (grid * block)-th element, so neighbours read neighbours. Reads and writes each
/// value once.
KVLAB_KERNEL void gelu_kernel(Global<float> x,  // [n_values]
                              std::int64_t n_values) {
  constexpr float kSlope = 0.797884561F;  // sqrt(2 / pi)
  const std::int64_t step = std::int64_t{grid_size_x()} * block_size_x();
  wait_for_previous_launch();
  for (std::int64_t i = std::int64_t{block_x()} * block_size_x() + thread_x(); i < n_values; i += step) {
    const float value = load_global(x + i);
    const float inner = kSlope * (value + 0.044715F * value * value * value);
    store_global(x + i, 0.5F * value * (1.0F + std::tanh(inner)));
  }
}

}  // namespace kvlab::cuda
