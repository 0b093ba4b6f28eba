// Finds races in shared memory in every build: two accesses of one byte, at least one a write, by threads that no
// barrier puts in order; and reads of bytes that an asynchronous copy has not brought yet. ThreadSanitizer finds the
// same and more, in a build of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvlab::cuda::emulation {

class SharedRaces {
 public:
  /// `unordered`: also look for accesses without order, not only for copies that have not arrived.
  explicit SharedRaces(bool unordered) : unordered_(unordered) {}

  /// Begins a block: what was before is forgotten.
  void begin_block(std::size_t shared_bytes, int block_size);
  /// All threads that are left have met.
  void pass_block_barrier() { ++epoch_; }
  /// The lanes have met in a warp barrier.
  void pass_warp_barrier(int warp, std::uint32_t lanes);

  enum class Use { read, write, atomic, begin_copy, end_copy };
  /// Notes an access of bytes [offset, offset + n). Returns "" or what it conflicts with.
  std::string note(Use use, std::size_t offset, std::size_t n, int thread, int line);

 private:
  static constexpr int kSeveralWarps = -2;

  struct Cell {
    std::int64_t write_epoch = -1;
    std::int64_t read_epoch = -1;
    std::int64_t copy_block = -1;  // a copy into this byte is under way in that block
    std::int32_t write_clock = 0;
    std::int32_t read_clock = 0;
    std::uint32_t read_lanes = 0;  // of read_warp
    std::int32_t write_line = 0;
    std::int32_t read_line = 0;
    std::int16_t writer = 0;
    std::int16_t read_warp = 0;
    bool atomic = false;  // the write
  };

  /// What a warp's lanes know of each other: met[i * 32 + j] is the last barrier that lane i has behind it together
  /// with lane j, directly or through others.
  struct Warp {
    std::int32_t n_barriers = 0;
    std::vector<std::int32_t> met;
    std::vector<std::int32_t> clock;  // by lane: its last barrier
  };

  bool follows(int thread, int other, std::int32_t other_clock) const;
  bool follows_reads(int thread, const Cell& cell) const;
  void add_read(Cell& cell, int thread, int line) const;
  std::string conflict_of(Use use, const Cell& cell, int thread) const;

  bool unordered_;
  std::int64_t epoch_ = 0;  // counts block barriers, over all blocks
  std::int64_t block_ = 0;
  std::vector<Cell> cells_;  // by byte
  std::vector<Warp> warps_;
};

}  // namespace kvlab::cuda::emulation
