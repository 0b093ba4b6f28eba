// Warp operations: each is one rendezvous, and the last lane to come computes for all.
#include <bit>
#include <cmath>

#include "kernels/cuda_emulation/block.h"
#include "kernels/cuda_emulation/hooks.h"

namespace kvlab::cuda::emulation {

namespace {

struct ShuffleOperand {
  std::uint64_t bits;
  int operand;
  std::uint64_t result;
  bool outside_mask;
};

int packed(Shuffle kind, int width) { return static_cast<int>(kind) * 64 + width; }

/// The lane that `lane` reads, or `lane` itself when the source lies outside its group.
int source_lane(Shuffle kind, int lane, int operand, int width) {
  const int first = lane / width * width;
  int source = lane;
  switch (kind) {
    case Shuffle::index:
      return first + operand % width;
    case Shuffle::exclusive_or:
      source = lane ^ operand;
      break;
    case Shuffle::up:
      source = lane - operand;
      break;
    case Shuffle::down:
      source = lane + operand;
      break;
  }
  return source < first || source >= first + width ? lane : source;
}

void combine_shuffle(void* const (&operands)[kWarpSize], std::uint32_t lanes, int parameter) {
  const auto kind = static_cast<Shuffle>(parameter / 64);
  const int width = parameter % 64;
  for (int i = 0; i < kWarpSize; ++i) {
    if ((lanes >> i & 1U) == 0) continue;
    auto* mine = static_cast<ShuffleOperand*>(operands[i]);
    const int source = source_lane(kind, i, mine->operand, width);
    mine->outside_mask = (lanes >> source & 1U) == 0;
    if (!mine->outside_mask) mine->result = static_cast<const ShuffleOperand*>(operands[source])->bits;
  }
}

void combine_ballot(void* const (&operands)[kWarpSize], std::uint32_t lanes, int) {
  std::uint32_t votes = 0;
  for (int i = 0; i < kWarpSize; ++i) {
    if ((lanes >> i & 1U) != 0) votes |= *static_cast<std::uint32_t*>(operands[i]) << i;
  }
  for (int i = 0; i < kWarpSize; ++i) {
    if ((lanes >> i & 1U) != 0) *static_cast<std::uint32_t*>(operands[i]) = votes;
  }
}

void combine_reduce(void* const (&operands)[kWarpSize], std::uint32_t, int parameter) {
  const auto kind = static_cast<Reduction>(parameter & 1);
  const int width = parameter >> 1 & 63;
  const int n = parameter >> 7;
  for (int value = 0; value < n; ++value) {
    float now[kWarpSize];
    for (int i = 0; i < kWarpSize; ++i) now[i] = static_cast<const float*>(operands[i])[value];
    for (int distance = width / 2; distance > 0; distance /= 2) {
      float next[kWarpSize];
      for (int i = 0; i < kWarpSize; ++i) {
        const float other = now[i ^ distance];
        next[i] = kind == Reduction::sum ? now[i] + other : std::fmax(now[i], other);
      }
      for (int i = 0; i < kWarpSize; ++i) now[i] = next[i];
    }
    for (int i = 0; i < kWarpSize; ++i) static_cast<float*>(operands[i])[value] = now[i];
  }
}

struct AddressOperand {
  const void* mine;
  const void** all;
};

void combine_addresses(void* const (&operands)[kWarpSize], std::uint32_t, int) {
  for (int i = 0; i < kWarpSize; ++i) {
    for (int j = 0; j < kWarpSize; ++j) {
      static_cast<AddressOperand*>(operands[i])->all[j] = static_cast<const AddressOperand*>(operands[j])->mine;
    }
  }
}

}  // namespace

std::uint64_t shuffle(Shuffle kind, std::uint64_t bits, int operand, int width, std::uint32_t lanes, int line) {
  ShuffleOperand mine{bits, operand, bits, false};
  Block::as_emulator([&](Block& block) {
    if (width < 1 || width > kWarpSize || !std::has_single_bit(static_cast<unsigned>(width))) {
      throw Fault("line " + std::to_string(line) + ": a shuffle's width must be 1, 2, 4, 8, 16 or 32");
    }
    block.meet_warp(MeetingKind::shuffle, lanes, packed(kind, width), &mine, combine_shuffle, line);
    if (mine.outside_mask) {
      throw Fault("line " + std::to_string(line) + ": a shuffle reads a lane outside its mask");
    }
  });
  return mine.result;
}

std::uint32_t ballot(bool predicate, std::uint32_t lanes, int line) {
  std::uint32_t votes = predicate ? 1 : 0;
  Block::as_emulator(
      [&](Block& block) { block.meet_warp(MeetingKind::ballot, lanes, 0, &votes, combine_ballot, line); });
  return votes;
}

void reduce(Reduction kind, float* values, int n, int width, int line) {
  Block::as_emulator([&](Block& block) {
    const int parameter = static_cast<int>(kind) | width << 1 | n << 7;
    block.meet_warp(MeetingKind::reduce, kWholeWarp, parameter, values, combine_reduce, line);
  });
}

void exchange_addresses(const void* mine, const void* (&all)[32], int line) {
  AddressOperand operand{mine, all};
  Block::as_emulator(
      [&](Block& block) { block.meet_warp(MeetingKind::exchange, kWholeWarp, 0, &operand, combine_addresses, line); });
}

}  // namespace kvlab::cuda::emulation
