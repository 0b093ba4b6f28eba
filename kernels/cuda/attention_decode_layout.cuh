// Decode attention on CUDA cores: which lane holds what, shared storage, and the sums that a lane carries.
// attention_decode.cuh has the work.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention_decode_task.cuh"
#include "kernels/cuda/decode_kernel.h"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

constexpr int kDecodeBlock = kDecodeWarps * kWarpSize;
/// Which lane holds what. A row of K or V is shared by kLanes lanes, each with 8 components in 16-byte chunks; chunk c
/// of lane l is the row's chunk c * kLanes + l, so that each access of a warp is one run of bytes.
template <typename T, int dim>
struct DecodeLanes {
  static constexpr int kLanes = dim / kDecodeLaneComponents;
  static constexpr int kPerChunk = 16 / static_cast<int>(sizeof(T));
  static constexpr int kChunks = kDecodeLaneComponents / kPerChunk;
  static constexpr int kKeys = kDecodeLaneChunks / kChunks;  // of a lane in one step
  static constexpr int kGroupsPerWarp = kWarpSize / kLanes;
  static constexpr int kGroups = kDecodeWarps * kGroupsPerWarp;
  static constexpr int kTile = decode_tile_keys(dim, sizeof(T));
  static constexpr int kBlocks = dim / 4;  // of four components in a row

  /// The first component of a lane's chunk.
  KVLAB_DEVICE static int component(int chunk) { return (chunk * kLanes + lane_id() % kLanes) * kPerChunk; }
  /// The first component of the lower (0) or upper (1) four of a lane's eight.
  KVLAB_DEVICE static int half_component(int half) { return component(half * 4 / kPerChunk) + half * 4 % kPerChunk; }
  /// The lane of a group that holds four components of a row.
  KVLAB_DEVICE static int lane_of(int block) { return kChunks == 1 ? block / 2 : block % kLanes; }
  /// Where four components of a lane's row stand among the 64 places of a warp. The exchanged bits keep eight
  /// neighbouring lanes (which write) and eight neighbouring blocks of a row (which are read) on different banks.
  KVLAB_DEVICE static int place(int lane, int block) {
    const int exchanged = kChunks == 1 ? lane >> 2 & 1 : kLanes == 4 ? lane & 4 : 0;
    return lane / kLanes * kBlocks + (block ^ exchanged);
  }
};

template <typename T, int dim, int heads>
struct DecodeStorage {
  /// [stage, warp, K or V, chunk of the lane, lane]: a lane reads only what it has copied itself, so the ring needs no
  /// barrier. Later, stage 0 of a warp holds its rows of output [head, place].
  SharedArray<Float4, kDecodeStages * kDecodeWarps * 2 * kDecodeLaneChunks * kWarpSize> ring;
  SharedArray<float, DecodeLanes<T, dim>::kGroups * heads> largest;  // [group, head]
  SharedArray<float, DecodeLanes<T, dim>::kGroups * heads> total;    // [group, head]
};

KVLAB_DEVICE constexpr int decode_ring_index(int stage, int warp, int side, int chunk) {
  return (((stage * kDecodeWarps + warp) * 2 + side) * kDecodeLaneChunks + chunk) * kWarpSize;
}

/// Where a lane's keys of one step are: looked up a step ahead of their copies. `page` is the table's entry, so that
/// nothing waits for it before the copies do; without a table it is 0.
template <int n>
struct DecodePlaces {
  std::int32_t page[n];
  std::int32_t slot[n];
};

/// What a lane has of its keys so far, for each head: their largest score, the sum of their weights, and its eight
/// components of the weighted sum of V.
template <int heads>
struct DecodeSums {
  float largest[heads];
  float total[heads];
  float row[heads][kDecodeLaneComponents];
};

}  // namespace kvlab::cuda
