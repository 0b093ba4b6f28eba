// What the kernels of decode attention agree on: their parameters, which lane holds what, shared storage, and the sums
// that a lane carries. attention_decode.cuh has the work.
#pragma once

#include <cfloat>
#include <cstdint>

#include "kernels/cuda/decode_plan.h"
#include "kernels/cuda/kv_view.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

constexpr int kDecodeBlock = kDecodeWarps * kWarpSize;
constexpr float kNoScore = -FLT_MAX;  // the largest score of no keys; finite, so that differences are never NaN

using Float4 = Vector<float, 4>;
using SplitSum = Vector<float, 2>;  // of one head and split: its largest score, the sum of its weights

/// Where the step's data stand. Scores are in units of log 2, for exp2.
template <typename T>
struct DecodeParams {
  Global<const float> q;  // [n_seqs, n_heads, head_dim], sequences q_stride apart
  std::int64_t q_stride;
  Global<float> out;  // [n_seqs, n_heads, head_dim], sequences out_stride apart
  std::int64_t out_stride;
  DeviceKvView<const T> kv;
  Global<const std::int32_t> kv_lens;  // [n_seqs]
  Global<float> partial_rows;          // [n_seqs, n_heads, n_splits, head_dim]
  Global<SplitSum> partial_sums;       // [n_seqs, n_heads, n_splits]
  std::int32_t n_heads;
  std::int32_t group;
  std::int32_t n_passes;
  std::int32_t head_dim;
  std::int32_t window;
  float scale;  // times log2(e)
};

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

/// A block's share of the work.
template <typename T>
struct DecodeTask {
  std::int32_t seq;
  std::int32_t kv_head;
  std::int32_t first_head;  // of the query heads of this pass
  std::int32_t n_heads;     // of this pass
  std::int32_t n_live;      // splits of the sequence that own keys
  KeyRange keys;
  std::int64_t region_start;  // of the sequence; 0 with a page table
};

}  // namespace kvlab::cuda
