// Finds races in shared memory in every build: two accesses of one byte, at least one a write, by threads that no
// barrier puts in order; and reads of bytes that an asynchronous copy has not brought yet. ThreadSanitizer finds the
// same and more, in a build of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace kvlab::cuda::emulation {

/// What an access conflicts with.
class SharedRace : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

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
  /// Notes an access of bytes [offset, offset + n); throws SharedRace. Copies are of 16 bytes, aligned.
  void note(Use use, std::size_t offset, std::size_t n, int thread, int line);

 private:
  static constexpr int kLanes = 32;
  static constexpr int kSeveralWarps = -2;

  /// One access.
  struct Access {
    Use use;
    int thread;
    int line;

    int warp() const { return thread / kLanes; }
    std::size_t lane() const { return static_cast<std::size_t>(thread % kLanes); }
  };

  /// What is known of a byte, or of a word whose bytes were accessed together.
  struct Cell {
    std::int64_t write_epoch = -1;
    std::int64_t read_epoch = -1;
    std::int64_t split_epoch = -1;  // of a word: in that epoch its bytes were not accessed together, and are kept apart
    std::int32_t write_clock = 0;
    std::int32_t read_clock = 0;
    std::uint32_t read_lanes = 0;  // of read_warp
    std::int32_t write_line = 0;
    std::int32_t read_line = 0;
    std::int16_t writer = 0;
    std::int16_t read_warp = 0;
    bool atomic = false;  // the write
  };

  /// A copy into 16 bytes, under way in that block.
  struct Copy {
    std::int64_t block = -1;
    int line = 0;
  };

  /// What a warp's lanes know of each other: met[i][j] is the last barrier that lane i has behind it together with lane
  /// j, directly or through others.
  struct Warp {
    std::int32_t n_barriers = 0;
    std::array<std::array<std::int32_t, kLanes>, kLanes> met{};
    std::array<std::int32_t, kLanes> met_all{};  // [i] the least of met[i]
    std::array<std::int32_t, kLanes> clock{};    // by lane: its last barrier
  };

  const Warp& warp_of(const Access& access) const { return warps_[static_cast<std::size_t>(access.warp())]; }
  bool follows_write(const Access& access, const Cell& cell) const;
  bool follows_reads(const Access& access, const Cell& cell) const;
  void add_read(const Access& access, Cell& cell) const;
  void add_write(const Access& access, Cell& cell) const;
  const Copy* copy_under_way(std::size_t offset, std::size_t n) const;
  void note(const Access& access, Cell& cell) const;

  bool unordered_;
  std::int64_t epoch_ = 0;  // counts block barriers, over all blocks
  std::int64_t block_ = 0;
  std::vector<Cell> words_;   // by 4 bytes
  std::vector<Cell> bytes_;   // by byte, of words that are split
  std::vector<Copy> copies_;  // by 16 bytes
  std::vector<Warp> warps_;
};

}  // namespace kvlab::cuda::emulation
