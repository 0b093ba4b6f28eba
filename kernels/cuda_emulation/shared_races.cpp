// Order by block barriers (an epoch) and by warp barriers (who has met whom). Most accesses are of whole words, in an
// order that the last barrier gives: these take the short way.
#include "kernels/cuda_emulation/shared_races.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace kvlab::cuda::emulation {

namespace {

constexpr std::size_t kWordBytes = 4;
constexpr std::size_t kCopyBytes = 16;

std::size_t n_parts(std::size_t bytes, std::size_t part) { return (bytes + part - 1) / part; }

}  // namespace

void SharedRaces::begin_block(std::size_t shared_bytes, int block_size) {
  ++epoch_;
  ++block_;
  if (bytes_.size() < shared_bytes) {
    words_.resize(n_parts(shared_bytes, kWordBytes));
    bytes_.resize(words_.size() * kWordBytes);
    copies_.resize(n_parts(shared_bytes, kCopyBytes));
  }
  warps_.resize(std::max(warps_.size(), n_parts(static_cast<std::size_t>(block_size), kLanes)));
  for (Warp& warp : warps_) {
    if (warp.n_barriers != 0) warp = {};
  }
}

void SharedRaces::pass_warp_barrier(int warp, std::uint32_t lanes) {
  Warp& mine = warps_[static_cast<std::size_t>(warp)];
  ++mine.n_barriers;
  std::array<std::int32_t, kLanes> joined{};
  for (std::size_t i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1U) == 0) continue;
    for (std::size_t j = 0; j < kLanes; ++j) joined[j] = std::max(joined[j], mine.met[i][j]);
  }
  for (std::size_t j = 0; j < kLanes; ++j) {
    if ((lanes >> j & 1U) == 0) continue;
    joined[j] = mine.n_barriers;
    mine.clock[j] = mine.n_barriers;
  }
  const std::int32_t least = *std::min_element(joined.begin(), joined.end());
  for (std::size_t i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1U) == 0) continue;
    mine.met[i] = joined;
    mine.met_all[i] = least;
  }
}

/// Whether a barrier lies between the write, of this epoch, and the access.
bool SharedRaces::follows_write(const Access& access, const Cell& cell) const {
  if (access.thread == cell.writer) return true;
  if (access.warp() != cell.writer / kLanes) return false;
  return warp_of(access).met[access.lane()][static_cast<std::size_t>(cell.writer % kLanes)] > cell.write_clock;
}

/// Whether a barrier lies between every read, of this epoch, and the access.
bool SharedRaces::follows_reads(const Access& access, const Cell& cell) const {
  if (cell.read_warp != access.warp()) return false;
  const Warp& warp = warp_of(access);
  if (warp.met_all[access.lane()] > cell.read_clock) return true;
  const std::uint32_t others = cell.read_lanes & ~(std::uint32_t{1} << access.lane());
  for (std::uint32_t left = others; left != 0; left &= left - 1) {
    const auto other = static_cast<std::size_t>(std::countr_zero(left));
    if (warp.met[access.lane()][other] <= cell.read_clock) return false;
  }
  return true;
}

void SharedRaces::add_read(const Access& access, Cell& cell) const {
  const auto warp = static_cast<std::int16_t>(access.warp());
  const std::int32_t clock = warp_of(access).clock[access.lane()];
  const std::uint32_t lane = std::uint32_t{1} << access.lane();
  if (cell.read_epoch != epoch_ || follows_reads(access, cell)) {
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
  cell.read_line = access.line;
}

void SharedRaces::add_write(const Access& access, Cell& cell) const {
  cell.write_epoch = epoch_;
  cell.writer = static_cast<std::int16_t>(access.thread);
  cell.write_clock = warp_of(access).clock[access.lane()];
  cell.write_line = access.line;
  cell.atomic = access.use == Use::atomic;
}

void SharedRaces::note(const Access& access, Cell& cell) const {
  const bool both_atomic = access.use == Use::atomic && cell.atomic;
  if (cell.write_epoch == epoch_ && !both_atomic && !follows_write(access, cell)) {
    throw SharedRace(
        fmt::format("thread {} writes it at line {}, and no barrier lies between", cell.writer, cell.write_line));
  }
  if (access.use == Use::read) {
    add_read(access, cell);
    return;
  }
  if (cell.read_epoch == epoch_ && !follows_reads(access, cell)) {
    throw SharedRace(fmt::format("another thread reads it at line {}, and no barrier lies between", cell.read_line));
  }
  add_write(access, cell);
}

const SharedRaces::Copy* SharedRaces::copy_under_way(std::size_t offset, std::size_t n) const {
  for (std::size_t i = offset / kCopyBytes; i < n_parts(offset + n, kCopyBytes); ++i) {
    if (copies_[i].block == block_) return &copies_[i];
  }
  return nullptr;
}

void SharedRaces::note(Use use, std::size_t offset, std::size_t n, int thread, int line) {
  if (use == Use::end_copy) {
    copies_[offset / kCopyBytes].block = -1;
  } else if (const Copy* copy = copy_under_way(offset, n)) {
    throw SharedRace(fmt::format("the copy started at line {} has not been waited for", copy->line));
  }
  if (use == Use::begin_copy) copies_[offset / kCopyBytes] = {block_, line};
  if (!unordered_) return;

  const Access access{use, thread, line};
  const std::size_t end = offset + n;
  for (std::size_t at = offset; at < end;) {
    Cell& word = words_[at / kWordBytes];
    const bool whole = at % kWordBytes == 0 && at + kWordBytes <= end;
    if (!whole && word.split_epoch != epoch_) {
      word.split_epoch = epoch_;
      std::fill_n(&bytes_[at / kWordBytes * kWordBytes], kWordBytes, word);
    }
    if (word.split_epoch == epoch_) {
      note(access, bytes_[at++]);
    } else {
      note(access, word);
      at += kWordBytes;
    }
  }
}

}  // namespace kvlab::cuda::emulation
