// Order by block barriers (an epoch) and by warp barriers (who has met whom).
#include "kernels/cuda_emulation/shared_races.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvlab::cuda::emulation {

namespace {
constexpr int kLanes = 32;
}

void SharedRaces::begin_block(std::size_t shared_bytes, int block_size) {
  ++epoch_;
  ++block_;
  if (cells_.size() < shared_bytes) cells_.resize(shared_bytes);
  warps_.assign(static_cast<std::size_t>((block_size + kLanes - 1) / kLanes), Warp{});
  for (Warp& warp : warps_) {
    warp.met.assign(kLanes * kLanes, 0);
    warp.clock.assign(kLanes, 0);
  }
}

void SharedRaces::pass_warp_barrier(int warp, std::uint32_t lanes) {
  Warp& mine = warps_[static_cast<std::size_t>(warp)];
  ++mine.n_barriers;
  std::vector<std::int32_t> joined(kLanes, 0);
  for (std::size_t i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1U) == 0) continue;
    for (std::size_t j = 0; j < kLanes; ++j) joined[j] = std::max(joined[j], mine.met[i * kLanes + j]);
  }
  for (std::size_t j = 0; j < kLanes; ++j) {
    if ((lanes >> j & 1U) == 0) continue;
    joined[j] = mine.n_barriers;
    mine.clock[j] = mine.n_barriers;
  }
  for (std::size_t i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1U) != 0)
      std::copy(joined.begin(), joined.end(), mine.met.begin() + static_cast<long>(i * kLanes));
  }
}

/// Whether a barrier lies between what `other` did at its clock and what `thread` does now, both in the same epoch.
bool SharedRaces::follows(int thread, int other, std::int32_t other_clock) const {
  if (thread == other) return true;
  if (thread / kLanes != other / kLanes) return false;
  const Warp& warp = warps_[static_cast<std::size_t>(thread / kLanes)];
  return warp.met[static_cast<std::size_t>(thread % kLanes * kLanes + other % kLanes)] > other_clock;
}

bool SharedRaces::follows_reads(int thread, const Cell& cell) const {
  if (cell.read_warp != thread / kLanes) return false;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((cell.read_lanes >> lane & 1U) != 0 && !follows(thread, cell.read_warp * kLanes + lane, cell.read_clock)) {
      return false;
    }
  }
  return true;
}

void SharedRaces::add_read(Cell& cell, int thread, int line) const {
  const auto warp = static_cast<std::int16_t>(thread / kLanes);
  const std::int32_t clock = warps_[static_cast<std::size_t>(warp)].clock[static_cast<std::size_t>(thread % kLanes)];
  const std::uint32_t lane = std::uint32_t{1} << (thread % kLanes);
  if (cell.read_epoch != epoch_ || (cell.read_warp == warp && follows_reads(thread, cell))) {
    cell.read_epoch = epoch_;
    cell.read_warp = warp;
    cell.read_lanes = lane;
    cell.read_clock = clock;
  } else if (cell.read_warp == warp) {
    // Lanes that read at different times are kept under the earliest: a race can be missed, none is made up.
    cell.read_lanes |= lane;
    cell.read_clock = std::min(cell.read_clock, clock);
  } else {
    cell.read_warp = kSeveralWarps;
  }
  cell.read_line = line;
}

std::string SharedRaces::conflict_of(Use use, const Cell& cell, int thread) const {
  if (use != Use::end_copy && cell.copy_block == block_) {
    return fmt::format("the copy started at line {} has not been waited for", cell.write_line);
  }
  if (!unordered_) return "";
  const bool both_atomic = use == Use::atomic && cell.atomic;
  if (cell.write_epoch == epoch_ && !both_atomic && !follows(thread, cell.writer, cell.write_clock)) {
    return fmt::format("thread {} writes it at line {}, and no barrier lies between", cell.writer, cell.write_line);
  }
  if (use != Use::read && cell.read_epoch == epoch_ && !follows_reads(thread, cell)) {
    return fmt::format("another thread reads it at line {}, and no barrier lies between", cell.read_line);
  }
  return "";
}

std::string SharedRaces::note(Use use, std::size_t offset, std::size_t n, int thread, int line) {
  for (std::size_t at = offset; at < offset + n; ++at) {
    Cell& cell = cells_[at];
    if (std::string conflict = conflict_of(use, cell, thread); !conflict.empty()) return conflict;
    if (use == Use::read) {
      add_read(cell, thread, line);
      continue;
    }
    const Warp& warp = warps_[static_cast<std::size_t>(thread / kLanes)];
    cell.write_epoch = epoch_;
    cell.writer = static_cast<std::int16_t>(thread);
    cell.write_clock = warp.clock[static_cast<std::size_t>(thread % kLanes)];
    cell.write_line = line;
    cell.atomic = use == Use::atomic;
    cell.copy_block = use == Use::begin_copy ? block_ : -1;
  }
  return "";
}

}  // namespace kvlab::cuda::emulation
