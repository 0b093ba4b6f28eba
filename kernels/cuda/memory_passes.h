// Launches passes over device memory that do nothing else, and kernels that do nothing at all: what ceilings are
// measured with. Includes no CUDA header.
#pragma once

#include <cstdint>

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t

namespace kvlab::cuda {

// Memory moves in chunks of 16 bytes: addresses and sizes are multiples of them. A launch goes over its memory
// n_passes times, n_blocks blocks together, passes one into the next. Each launcher throws InputError when it cannot,
// std::runtime_error when the launch is refused.

/// How many sums a launch of read passes writes for so many blocks.
std::int64_t read_pass_sums(std::int64_t n_blocks);
/// The exclusive or of `sums` [read_pass_sums(n_blocks)], which is written, is that of all 32-bit words read.
void launch_read_passes(const void* memory, std::int64_t bytes, std::int64_t n_passes, std::int64_t n_blocks,
                        std::uint32_t* sums, CUstream_st* stream);
/// Every 32-bit word becomes `word`.
void launch_write_passes(void* memory, std::int64_t bytes, std::int64_t n_passes, std::int64_t n_blocks,
                         std::uint32_t word, CUstream_st* stream);
/// to [bytes] = from [bytes], apart.
void launch_copy_passes(const void* from, void* to, std::int64_t bytes, std::int64_t n_passes, std::int64_t n_blocks,
                        CUstream_st* stream);
/// One thread that does nothing: what a launch costs.
void launch_nothing(CUstream_st* stream);

}  // namespace kvlab::cuda
