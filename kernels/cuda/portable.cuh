// Asks which compiler runs, once, for every kernel body: nvcc makes device code, g++ and clang++ a host twin that the
// tests execute. Kernel bodies use these names and no CUDA header or built-in.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)

#include <cuda_runtime.h>

#define KVLAB_KERNEL __global__
#define KVLAB_DEVICE __device__ inline

namespace kvlab::cuda {

KVLAB_DEVICE std::int64_t thread_x() { return threadIdx.x; }
KVLAB_DEVICE std::int64_t block_x() { return blockIdx.x; }
KVLAB_DEVICE std::int64_t block_size_x() { return blockDim.x; }
KVLAB_DEVICE std::int64_t grid_size_x() { return gridDim.x; }

}  // namespace kvlab::cuda

#else

#define KVLAB_KERNEL inline
#define KVLAB_DEVICE inline

namespace kvlab::cuda {

/// Where the thread that runs on the host stands in its launch.
struct HostThread {
  std::int64_t thread_x = 0;
  std::int64_t block_x = 0;
  std::int64_t block_size_x = 1;
  std::int64_t grid_size_x = 1;
};

inline thread_local HostThread host_thread;

KVLAB_DEVICE std::int64_t thread_x() { return host_thread.thread_x; }
KVLAB_DEVICE std::int64_t block_x() { return host_thread.block_x; }
KVLAB_DEVICE std::int64_t block_size_x() { return host_thread.block_size_x; }
KVLAB_DEVICE std::int64_t grid_size_x() { return host_thread.grid_size_x; }

}  // namespace kvlab::cuda

#endif
