// The bodies of passes over memory: what the fastest reader, writer and copier get is the ceiling of the others.
#pragma once

#include <cstdint>

#include "kernels/cuda/memory.cuh"

namespace kvlab::cuda {

constexpr int kMemoryPassBlock = 512;
constexpr int kMemoryPassLoads = 8;  // of a thread, under way at once, of 16 bytes each

using MemoryChunk = Vector<std::uint32_t, 4>;

/// The way of one thread: every (threads of the grid)-th chunk of all passes laid end to end, so that neighbours touch
/// neighbours, small memory is spread over all blocks, and a pass finds no chunk where the same thread left it.
class MemoryWalk {
 public:
  KVLAB_DEVICE MemoryWalk(std::int64_t n_chunks, std::int64_t n_passes)
      : n_chunks_(n_chunks),
        n_visits_(n_chunks * n_passes),
        stride_(std::int64_t{grid_size_x()} * kMemoryPassBlock),
        step_(stride_ % n_chunks),
        visit_(std::int64_t{block_x()} * kMemoryPassBlock + thread_x()),
        chunk_(visit_ % n_chunks) {}

  /// Whether a visit is left for any thread of this block: the same for all of them.
  KVLAB_DEVICE bool goes_on() const { return visit_ - thread_x() < n_visits_; }
  KVLAB_DEVICE bool active() const { return visit_ < n_visits_; }
  KVLAB_DEVICE std::int64_t chunk() const { return chunk_; }
  KVLAB_DEVICE void next() {
    visit_ += stride_;
    chunk_ += step_;
    chunk_ -= chunk_ >= n_chunks_ ? n_chunks_ : 0;
  }

 private:
  std::int64_t n_chunks_;
  std::int64_t n_visits_;
  std::int64_t stride_;
  std::int64_t step_;
  std::int64_t visit_;
  std::int64_t chunk_;
};

/// sums[t] = exclusive or of the words that thread t of the grid reads, so that no load can be left out.
/// Grid: any number of blocks; block: kMemoryPassBlock threads; no shared memory. Reads every chunk once a pass, past
/// L1.
KVLAB_KERNEL void KVLAB_LAUNCH_BOUNDS(kMemoryPassBlock, 2)
    read_passes_kernel(Global<const MemoryChunk> memory,  // [n_chunks]
                       std::int64_t n_chunks, std::int64_t n_passes,
                       Global<std::uint32_t> sums) {  // [grid * kMemoryPassBlock]
  wait_for_previous_launch();
  std::uint32_t sum = 0;
  MemoryWalk walk(n_chunks, n_passes);
  while (walk.goes_on()) {
    MemoryChunk chunks[kMemoryPassLoads];
    KVLAB_UNROLL
    for (int i = 0; i < kMemoryPassLoads; ++i) {
      chunks[i] = load_global_streamed_if(walk.active(), memory + walk.chunk(), MemoryChunk{});
      walk.next();
    }
    KVLAB_UNROLL
    for (int i = 0; i < kMemoryPassLoads; ++i) sum ^= chunks[i][0] ^ chunks[i][1] ^ chunks[i][2] ^ chunks[i][3];
  }
  store_global(sums + (std::int64_t{block_x()} * kMemoryPassBlock + thread_x()), sum);
}

/// memory[:] = word, four times a chunk. Grid, block and walk as above. Writes every chunk once a pass.
KVLAB_KERNEL void KVLAB_LAUNCH_BOUNDS(kMemoryPassBlock, 2)
    write_passes_kernel(Global<MemoryChunk> memory,  // [n_chunks]
                        std::int64_t n_chunks, std::int64_t n_passes, std::uint32_t word) {
  wait_for_previous_launch();
  const MemoryChunk chunk{{word, word, word, word}};
  for (MemoryWalk walk(n_chunks, n_passes); walk.goes_on(); walk.next()) {
    store_global_if(walk.active(), memory + walk.chunk(), chunk);
  }
}

/// to = from. Grid, block and walk as above. Reads and writes every chunk once a pass.
KVLAB_KERNEL void KVLAB_LAUNCH_BOUNDS(kMemoryPassBlock, 2)
    copy_passes_kernel(Global<const MemoryChunk> from,  // [n_chunks]
                       Global<MemoryChunk> to,          // [n_chunks]
                       std::int64_t n_chunks, std::int64_t n_passes) {
  wait_for_previous_launch();
  MemoryWalk reader(n_chunks, n_passes);
  MemoryWalk writer(n_chunks, n_passes);
  while (writer.goes_on()) {
    MemoryChunk chunks[kMemoryPassLoads];
    KVLAB_UNROLL
    for (int i = 0; i < kMemoryPassLoads; ++i) {
      chunks[i] = load_global_streamed_if(reader.active(), from + reader.chunk(), MemoryChunk{});
      reader.next();
    }
    KVLAB_UNROLL
    for (int i = 0; i < kMemoryPassLoads; ++i) {
      store_global_if(writer.active(), to + writer.chunk(), chunks[i]);
      writer.next();
    }
  }
}

KVLAB_KERNEL void nothing_kernel() {}

}  // namespace kvlab::cuda
