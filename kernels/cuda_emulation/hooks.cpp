// The emulator's side of places, barriers, accesses, copies and the order of launches.
#include "kernels/cuda_emulation/hooks.h"

#include <fmt/format.h>

#include "kernels/cuda_emulation/block.h"

namespace kvlab::cuda::emulation {

int thread_x() { return Block::running().lane().thread; }
int block_size_x() { return static_cast<int>(Block::running().shape().block_size); }
int block_x() { return static_cast<int>(Block::running().x()); }
int block_y() { return static_cast<int>(Block::running().y()); }
int block_z() { return static_cast<int>(Block::running().z()); }
int grid_size_x() { return static_cast<int>(Block::running().shape().n_blocks); }
int grid_size_y() { return static_cast<int>(Block::running().shape().n_blocks_y); }
int grid_size_z() { return static_cast<int>(Block::running().shape().n_blocks_z); }

void* shared_memory(std::size_t bytes) {
  void* memory = nullptr;
  Block::as_emulator([&](Block& block) {
    if (bytes != block.shape().shared_bytes) {
      throw Fault(
          fmt::format("wants {} bytes of shared memory, and the launch gave {}", bytes, block.shape().shared_bytes));
    }
    memory = block.shared();
  });
  return memory;
}

void block_barrier(int line) {
  Block::as_emulator([&](Block& block) { block.wait_at_barrier(line); });
}

void warp_barrier(std::uint32_t lanes, int line) {
  Block::as_emulator([&](Block& block) { block.meet_warp(MeetingKind::barrier, lanes, 0, nullptr, nullptr, line); });
}

void access(AccessKind kind, const void* address, int bytes, bool active, int line) {
  Block::as_emulator([&](Block& block) { block.check_access(kind, address, bytes, active, line); });
}

void begin_copy(const AsyncCopy& copy) {
  Block::as_emulator([&](Block& block) { block.lane().copies.issued.push_back(copy); });
}

void commit_copies() {
  Block::as_emulator([](Block& block) {
    CopyQueue& copies = block.lane().copies;
    copies.group_ends.push_back(copies.issued.size());
  });
}

bool take_arrived_copy(int n_pending_groups, AsyncCopy* copy) {
  bool found = false;
  Block::as_emulator([&](Block& block) {
    CopyQueue& copies = block.lane().copies;
    const auto n_pending = static_cast<std::size_t>(n_pending_groups);
    const std::size_t n_groups = copies.group_ends.size();
    if (n_groups <= n_pending || copies.n_taken >= copies.group_ends[n_groups - 1 - n_pending]) return;
    *copy = copies.issued[copies.n_taken++];
    found = true;
    block.note_shared(SharedRaces::Use::end_copy, block.lane().thread, copy->destination, 16, copy->line);
  });
  return found;
}

void wait_for_previous_launch() {
  Block::as_emulator([](Block& block) { block.lane().waited_for_previous = true; });
}

}  // namespace kvlab::cuda::emulation
