// How many blocks and threads a launch has. Plain C++, for launchers, the emulator and tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvlab::cuda {

/// Blocks are counted along x, y and z; threads within a block along x alone.
struct LaunchShape {
  std::int64_t n_blocks = 1;
  std::int64_t block_size = 1;
  std::int64_t n_blocks_y = 1;
  std::int64_t n_blocks_z = 1;
  std::size_t shared_bytes = 0;  // sizeof the kernel's shared storage
  /// Programmatic dependent launch: may start before the previous kernel of its stream has ended, and must wait
  /// (wait_for_previous_launch) before it touches what that one writes.
  bool overlaps_previous = false;
};

/// Enough blocks of `block_size` threads for `n_items`, one each, but at most `max_blocks`: a kernel that strides over
/// the grid takes the rest.
inline LaunchShape shape_for(std::int64_t n_items, std::int64_t block_size, std::int64_t max_blocks) {
  const std::int64_t wanted = (n_items + block_size - 1) / block_size;
  return {wanted < max_blocks ? wanted : max_blocks, block_size};
}

/// Whether accesses of 16 bytes may begin here.
inline bool is_aligned_to_16(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

}  // namespace kvlab::cuda
