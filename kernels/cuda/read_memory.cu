// Launches the reader of device memory.
#include <string>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/read_memory.cuh"
#include "kernels/cuda/read_memory.h"
#include "kernels/error.h"

namespace kvlab::cuda {

std::int64_t read_memory_sums(std::int64_t n_blocks) { return n_blocks * kReadMemoryBlock; }

void launch_read_memory(const void* memory, std::int64_t bytes, std::int64_t n_blocks, std::uint32_t* sums,
                        CUstream_st* stream) {
  if (bytes % 16 != 0 || !is_aligned_to_16(memory) || n_blocks < 1) {
    throw InputError("read_memory: " + std::to_string(bytes) + " bytes by " + std::to_string(n_blocks) +
                     " blocks; it takes whole 16 bytes, aligned, and at least one block");
  }
  launch("read_memory", read_memory_kernel, {n_blocks, kReadMemoryBlock}, stream,
         static_cast<const std::uint32_t*>(memory), bytes / 16, sums);
}

}  // namespace kvlab::cuda
