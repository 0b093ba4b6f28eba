// The emulated runtime's pinned memory. A copy from it is done at once, but on a device it may still be under way until
// the host has waited: bytes that the host changes before then are a race, which is found here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace kvlab::cuda::emulation {

class PinnedMemory {
 public:
  void* allocate(std::size_t bytes);
  /// Copies that nobody waited for are forgotten: cudaFreeHost waits for them.
  void release(void* memory);
  bool holds(const void* address) const;

  /// A copy from pinned memory starts. Throws EmulationError when the host has changed bytes that an earlier copy may
  /// still read.
  void start_read(const void* from, std::size_t bytes);
  /// Started so far.
  std::int64_t n_reads() const { return n_reads_; }
  /// The host has waited for the first `n` reads. Throws EmulationError as above.
  void finish_reads(std::int64_t n);

 private:
  struct Read {
    std::int64_t number;
    const std::byte* from;
    std::vector<std::byte> bytes;  // as they were when the copy started
  };
  /// Throws, and forgets the read, when the host has changed its bytes.
  void check(std::size_t index);

  std::map<const std::byte*, std::vector<std::byte>> blocks_;  // by first byte
  std::vector<Read> reads_;                                    // that the host has not waited for
  std::int64_t n_reads_ = 0;
};

}  // namespace kvlab::cuda::emulation
