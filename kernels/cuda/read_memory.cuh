// The body of reading memory and doing nothing else: what the fastest reader gets is the ceiling of the others.
#pragma once

#include <cstdint>

#include "kernels/cuda/memory.cuh"

namespace kvlab::cuda {

constexpr int kReadMemoryBlock = 512;
constexpr int kReadMemoryLoads = 8;  // under way at once, of 16 bytes each

/// sums[t] = exclusive or of the words that thread t of the grid reads, so that no load can be left out.
/// Grid: any number of blocks; block: kReadMemoryBlock threads; no shared memory.
/// A block takes tiles of 64 KiB, a grid apart; neighbours read neighbours. Reads everything once, past L1.
KVLAB_KERNEL void KVLAB_LAUNCH_BOUNDS(kReadMemoryBlock, 2)
    read_memory_kernel(Global<const std::uint32_t> memory, std::int64_t n_chunks,  // [n_chunks, 4]
                       Global<std::uint32_t> sums) {                               // [grid * kReadMemoryBlock]
  using Chunk = Vector<std::uint32_t, 4>;
  constexpr std::int64_t kTile = std::int64_t{kReadMemoryBlock} * kReadMemoryLoads;
  wait_for_previous_launch();
  std::uint32_t sum = 0;
  for (std::int64_t first = block_x() * kTile; first < n_chunks; first += grid_size_x() * kTile) {
    Chunk chunks[kReadMemoryLoads];
    KVLAB_UNROLL
    for (int i = 0; i < kReadMemoryLoads; ++i) {
      const std::int64_t at = first + i * kReadMemoryBlock + thread_x();
      chunks[i] = load_global_streamed_if(at < n_chunks, (memory + at * 4).template as<Chunk>(), Chunk{});
    }
    KVLAB_UNROLL
    for (int i = 0; i < kReadMemoryLoads; ++i) sum ^= chunks[i][0] ^ chunks[i][1] ^ chunks[i][2] ^ chunks[i][3];
  }
  store_global(sums + (std::int64_t{block_x()} * kReadMemoryBlock + thread_x()), sum);
}

}  // namespace kvlab::cuda
