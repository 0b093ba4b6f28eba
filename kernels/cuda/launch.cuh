// Starts a kernel, or asks how much of a device its blocks fill: on the device, or on the emulator where the file is
// compiled for the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/last_launch.h"
#include "kernels/cuda/launch_shape.h"
#include "kernels/cuda/portable.cuh"

#if defined(__CUDACC__)
#include <map>
#include <stdexcept>
#include <string>
#else
#include "kernels/cuda_emulation/launch.h"
#include "kernels/cuda_emulation/launched_kernels.h"
#endif

struct CUstream_st;

namespace kvlab::cuda {

#if defined(__CUDACC__)

inline void throw_on_error(cudaError_t status, const char* call, const char* kernel) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string("kernel ") + kernel + ": " + call + ": " + cudaGetErrorString(status));
}

/// Blocks may have more than 48 KiB of shared memory only after this.
template <typename... Params>
void allow_shared_bytes(const char* name, void (*kernel)(Params...), std::size_t shared_bytes) {
  constexpr std::size_t kWithoutAsking = std::size_t{48} << 10;
  if (shared_bytes <= kWithoutAsking) return;
  throw_on_error(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
                 "cudaFuncSetAttribute", name);
}

/// Blocks of a kernel that one SM holds at once; asked once for each kernel, since every step wants to know.
template <typename... Params>
std::int64_t blocks_per_multiprocessor(const char* name, void (*kernel)(Params...), std::int64_t block_size,
                                       std::size_t shared_bytes) {
  static std::map<const void*, int> known;  // by kernel: its block size and shared memory are always the same
  const auto* const function = reinterpret_cast<const void*>(kernel);
  if (const auto found = known.find(function); found != known.end()) return found->second;
  allow_shared_bytes(name, kernel, shared_bytes);
  int n_blocks = 0;
  throw_on_error(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n_blocks, function, static_cast<int>(block_size), shared_bytes),
      "cudaOccupancyMaxActiveBlocksPerMultiprocessor", name);
  known[function] = n_blocks;
  return n_blocks;
}

/// Whether the current device is of sm_90 or later, which launches may overlap on; asked once.
inline bool launches_can_overlap() {
  static const bool can = [] {
    int device = 0;
    int major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
  }();
  return can;
}

/// Throws std::runtime_error naming the kernel when the launch is refused.
template <typename... Params>
void launch(const char* name, void (*kernel)(Params...), const LaunchShape& shape, CUstream_st* stream,
            std::type_identity_t<Params>... args) {
  allow_shared_bytes(name, kernel, shape.shared_bytes);
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.n_blocks), static_cast<unsigned>(shape.n_blocks_y),
                        static_cast<unsigned>(shape.n_blocks_z));
  config.blockDim = dim3(static_cast<unsigned>(shape.block_size));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = shape.overlaps_previous && launches_can_overlap() ? 1 : 0;
  last_launched_kernel() = name;
  throw_on_error(cudaLaunchKernelEx(&config, kernel, args...), "cudaLaunchKernelEx", name);
}

#else

/// Two, whatever the kernel: the emulator runs one block after the other.
template <typename... Params>
std::int64_t blocks_per_multiprocessor(const char*, void (*)(Params...), std::int64_t, std::size_t) {
  return 2;
}

/// Throws emulation::EmulationError naming the kernel when the launch is refused or the kernel does what it must not.
template <typename... Params>
void launch(const char* name, void (*kernel)(Params...), const LaunchShape& shape, CUstream_st* stream,
            std::type_identity_t<Params>... args) {
  emulation::note_launch(reinterpret_cast<const void*>(kernel), shape);
  emulation::launch(name, shape, stream, [kernel, args...] { kernel(args...); });
}

#endif

}  // namespace kvlab::cuda
