// Starts a kernel: on the device by its launch, on the host as a plain loop over blocks and threads. The loop runs each
// thread to its end before the next, so it serves kernels without barriers and warp operations.
#pragma once

#include <cstdint>

#include "kernels/cuda/portable.cuh"

#if defined(__CUDACC__)
#include <stdexcept>
#include <string>
#endif

namespace kvlab::cuda {

/// A one-dimensional launch.
struct LaunchShape {
  std::int64_t n_blocks = 1;
  std::int64_t block_size = 1;
};

/// Enough blocks of `block_size` threads for `n_items`, one each, but at most `max_blocks`: a kernel that strides over
/// the grid takes the rest.
inline LaunchShape shape_for(std::int64_t n_items, std::int64_t block_size, std::int64_t max_blocks) {
  const std::int64_t wanted = (n_items + block_size - 1) / block_size;
  return {wanted < max_blocks ? wanted : max_blocks, block_size};
}

#if defined(__CUDACC__)

/// Throws std::runtime_error naming the kernel when the launch is refused.
template <typename... Args>
void launch(const char* name, void (*kernel)(Args...), LaunchShape shape, cudaStream_t stream, Args... args) {
  kernel<<<static_cast<unsigned>(shape.n_blocks), static_cast<unsigned>(shape.block_size), 0, stream>>>(args...);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) {
    throw std::runtime_error(std::string(name) + ": " + cudaGetErrorString(status));
  }
}

#else

template <typename... Args>
void launch_on_host(void (*kernel)(Args...), LaunchShape shape, Args... args) {
  for (std::int64_t block = 0; block < shape.n_blocks; ++block) {
    for (std::int64_t thread = 0; thread < shape.block_size; ++thread) {
      host_thread = {thread, block, shape.block_size, shape.n_blocks};
      kernel(args...);
    }
  }
  host_thread = {};
}

#endif

}  // namespace kvlab::cuda
