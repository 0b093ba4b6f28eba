// Launches the passes over memory.
#include <string>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/memory_passes.cuh"
#include "kernels/cuda/memory_passes.h"
#include "kernels/error.h"

namespace kvlab::cuda {
namespace {

constexpr std::int64_t kChunkBytes = sizeof(MemoryChunk);

void check(const char* launcher, const void* memory, std::int64_t bytes, std::int64_t n_passes, std::int64_t n_blocks) {
  if (bytes >= kChunkBytes && bytes % kChunkBytes == 0 && is_aligned_to_16(memory) && n_passes >= 1 && n_blocks >= 1) {
    return;
  }
  throw InputError(std::string(launcher) + ": " + std::to_string(n_passes) + " passes over " + std::to_string(bytes) +
                   " bytes by " + std::to_string(n_blocks) +
                   " blocks; it takes whole 16 bytes, aligned, and at least one pass and one block");
}

}  // namespace

std::int64_t read_pass_sums(std::int64_t n_blocks) { return n_blocks * kMemoryPassBlock; }

void launch_read_passes(const void* memory, std::int64_t bytes, std::int64_t n_passes, std::int64_t n_blocks,
                        std::uint32_t* sums, CUstream_st* stream) {
  check("read_passes", memory, bytes, n_passes, n_blocks);
  launch("read_passes", read_passes_kernel, {n_blocks, kMemoryPassBlock}, stream,
         static_cast<const MemoryChunk*>(memory), bytes / kChunkBytes, n_passes, sums);
}

void launch_write_passes(void* memory, std::int64_t bytes, std::int64_t n_passes, std::int64_t n_blocks,
                         std::uint32_t word, CUstream_st* stream) {
  check("write_passes", memory, bytes, n_passes, n_blocks);
  launch("write_passes", write_passes_kernel, {n_blocks, kMemoryPassBlock}, stream, static_cast<MemoryChunk*>(memory),
         bytes / kChunkBytes, n_passes, word);
}

void launch_copy_passes(const void* from, void* to, std::int64_t bytes, std::int64_t n_passes, std::int64_t n_blocks,
                        CUstream_st* stream) {
  check("copy_passes", from, bytes, n_passes, n_blocks);
  check("copy_passes", to, bytes, n_passes, n_blocks);
  launch("copy_passes", copy_passes_kernel, {n_blocks, kMemoryPassBlock}, stream, static_cast<const MemoryChunk*>(from),
         static_cast<MemoryChunk*>(to), bytes / kChunkBytes, n_passes);
}

void launch_nothing(CUstream_st* stream) { launch("nothing", nothing_kernel, {}, stream); }

}  // namespace kvlab::cuda
