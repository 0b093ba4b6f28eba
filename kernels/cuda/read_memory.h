// Launches a reader of device memory, whose rate is the ceiling of every kernel that reads. Includes no CUDA header.
#pragma once

#include <cstdint>

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t

namespace kvlab::cuda {

/// How many sums the launch writes for so many blocks.
std::int64_t read_memory_sums(std::int64_t n_blocks);

/// Reads `bytes` bytes at `memory` once; both multiples of 16. The exclusive or of `sums` [read_memory_sums(n_blocks)],
/// which is written, is that of all 32-bit words. Throws InputError when it cannot, std::runtime_error when the launch
/// is refused.
void launch_read_memory(const void* memory, std::int64_t bytes, std::int64_t n_blocks, std::uint32_t* sums,
                        CUstream_st* stream);

}  // namespace kvlab::cuda
