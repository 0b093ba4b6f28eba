// Asks which compiler runs, once, for every kernel body: nvcc makes device code, g++ and clang++ a twin that the
// emulator executes. Where a thread stands, the block's shared memory, and barriers. Kernel bodies use the wrappers of
// this folder and no CUDA header or built-in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/host_device.h"

#if defined(__CUDACC__)

#include <cuda_runtime.h>

#define KVLAB_KERNEL __global__
#define KVLAB_DEVICE __device__ inline
#define KVLAB_LAUNCH_BOUNDS(threads, blocks_per_sm) __launch_bounds__(threads, blocks_per_sm)
#define KVLAB_UNROLL _Pragma("unroll")
#define KVLAB_NO_UNROLL _Pragma("unroll 1")

#else

#include "kernels/cuda_emulation/hooks.h"

#define KVLAB_KERNEL inline
#define KVLAB_DEVICE inline
#define KVLAB_LAUNCH_BOUNDS(threads, blocks_per_sm)
#define KVLAB_UNROLL
#define KVLAB_NO_UNROLL

#endif

namespace kvlab::cuda {

/// A set of lanes of a warp, bit i for lane i.
using LaneMask = std::uint32_t;
constexpr LaneMask kAllLanes = 0xFFFFFFFFU;
constexpr int kWarpSize = 32;

#if defined(__CUDACC__)

KVLAB_DEVICE int thread_x() { return static_cast<int>(threadIdx.x); }
KVLAB_DEVICE int block_size_x() { return static_cast<int>(blockDim.x); }
KVLAB_DEVICE int block_x() { return static_cast<int>(blockIdx.x); }
KVLAB_DEVICE int block_y() { return static_cast<int>(blockIdx.y); }
KVLAB_DEVICE int block_z() { return static_cast<int>(blockIdx.z); }
KVLAB_DEVICE int grid_size_x() { return static_cast<int>(gridDim.x); }
KVLAB_DEVICE int grid_size_y() { return static_cast<int>(gridDim.y); }
KVLAB_DEVICE int grid_size_z() { return static_cast<int>(gridDim.z); }

/// The block's one shared struct, uninitialised. Its sizeof is what the launch asks for; its members are SharedArrays.
template <typename Storage>
KVLAB_DEVICE Storage& shared_storage() {
  extern __shared__ std::byte kvlab_shared_memory[];
  static_assert(alignof(Storage) <= 16, "dynamic shared memory is aligned to 16 bytes");
  return *reinterpret_cast<Storage*>(kvlab_shared_memory);
}

/// All threads of the block wait for each other, and see each other's writes.
KVLAB_DEVICE void block_barrier([[maybe_unused]] int line = __builtin_LINE()) { __syncthreads(); }
/// The same for the named lanes of a warp.
KVLAB_DEVICE void warp_barrier(LaneMask lanes = kAllLanes, [[maybe_unused]] int line = __builtin_LINE()) {
  __syncwarp(lanes);
}

/// In a launch that overlaps the previous one (LaunchShape): waits until that has ended and its writes can be seen.
/// Then lets the next launch start, if it was made to overlap: since every launch waits before it lets the next one go,
/// what a launch reads before its own wait was written at least two launches ago. Before sm_90, where nothing overlaps,
/// it does nothing.
KVLAB_DEVICE void wait_for_previous_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

#else

KVLAB_DEVICE int thread_x() { return emulation::thread_x(); }
KVLAB_DEVICE int block_size_x() { return emulation::block_size_x(); }
KVLAB_DEVICE int block_x() { return emulation::block_x(); }
KVLAB_DEVICE int block_y() { return emulation::block_y(); }
KVLAB_DEVICE int block_z() { return emulation::block_z(); }
KVLAB_DEVICE int grid_size_x() { return emulation::grid_size_x(); }
KVLAB_DEVICE int grid_size_y() { return emulation::grid_size_y(); }
KVLAB_DEVICE int grid_size_z() { return emulation::grid_size_z(); }

template <typename Storage>
KVLAB_DEVICE Storage& shared_storage() {
  return *static_cast<Storage*>(emulation::shared_memory(sizeof(Storage)));
}

KVLAB_DEVICE void block_barrier(int line = __builtin_LINE()) { emulation::block_barrier(line); }
KVLAB_DEVICE void warp_barrier(LaneMask lanes = kAllLanes, int line = __builtin_LINE()) {
  emulation::warp_barrier(lanes, line);
}

KVLAB_DEVICE void wait_for_previous_launch() { emulation::wait_for_previous_launch(); }

#endif

KVLAB_DEVICE int lane_id() { return thread_x() % kWarpSize; }
KVLAB_DEVICE int warp_id() { return thread_x() / kWarpSize; }

}  // namespace kvlab::cuda
