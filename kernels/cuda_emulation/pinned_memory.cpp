#include "kernels/cuda_emulation/pinned_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "kernels/cuda_emulation/device.h"

namespace kvlab::cuda::emulation {

void* PinnedMemory::allocate(std::size_t bytes) {
  std::vector<std::byte> block(std::max<std::size_t>(bytes, 1));
  void* memory = block.data();
  blocks_.emplace(block.data(), std::move(block));
  return memory;
}

void PinnedMemory::release(void* memory) {
  const auto block = blocks_.find(static_cast<const std::byte*>(memory));
  if (block == blocks_.end()) throw EmulationError("release_pinned: the memory is not pinned");
  const std::byte* end = block->first + block->second.size();
  std::erase_if(reads_, [&](const Read& read) { return read.from >= block->first && read.from < end; });
  blocks_.erase(block);
}

bool PinnedMemory::holds(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  const auto next = blocks_.upper_bound(at);
  return next != blocks_.begin() && at < std::prev(next)->first + std::prev(next)->second.size();
}

void PinnedMemory::check(std::size_t index) {
  if (std::memcmp(reads_[index].from, reads_[index].bytes.data(), reads_[index].bytes.size()) == 0) return;
  const std::size_t n_bytes = reads_[index].bytes.size();
  reads_.erase(reads_.begin() + static_cast<std::ptrdiff_t>(index));
  throw EmulationError(
      fmt::format("copy_to_device: the host changed pinned memory that a copy of {} bytes may still read; wait for an "
                  "event after it",
                  n_bytes));
}

void PinnedMemory::start_read(const void* from, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(from);
  for (std::size_t i = 0; i < reads_.size(); ++i) {
    if (first < reads_[i].from + reads_[i].bytes.size() && reads_[i].from < first + bytes) check(i);
  }
  reads_.push_back({n_reads_++, first, {first, first + bytes}});
}

void PinnedMemory::finish_reads(std::int64_t n) {
  for (std::size_t i = 0; i < reads_.size(); ++i) {
    if (reads_[i].number < n) check(i);
  }
  std::erase_if(reads_, [&](const Read& read) { return read.number < n; });
}

}  // namespace kvlab::cuda::emulation
