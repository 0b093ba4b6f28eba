// What the parts of prefill attention agree on: parameters, a block's task, shared storage with its swizzle, and the
// sums that a lane carries. attention_prefill.cuh has the work.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/kv_view.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/prefill_plan.h"

namespace kvlab::cuda {

/// Where the call's data stand. Scores are in units of log 2, for exp2.
struct PrefillParams {
  Global<const float> q;  // [n_rows, n_heads, head_dim], rows q_stride apart
  std::int64_t q_stride;
  Global<float> out;  // [n_rows, n_heads, head_dim], rows out_stride apart
  std::int64_t out_stride;
  DeviceKvView<const Bf16> kv;
  Global<const SequenceSpan> seqs;  // [n_seqs]
  std::int32_t group;
  std::int32_t head_dim;
  std::int32_t window;
  float scale;  // times log2(e)
};

/// A block's share of the work: rows [first_row, first_row + kRows) of one sequence and KV head.
struct PrefillTask {
  std::int32_t seq;
  std::int32_t kv_head;
  PrefillMask mask;
  std::int32_t first_row;
  KeyRange keys;    // that the rows see
  KeyRange blocks;  // of keys
};

/// The sequence's first row in q and out. Read when it is needed: during the walk registers are short.
KVLAB_DEVICE std::int64_t first_step_row(const PrefillParams& params, const PrefillTask& task) {
  return load_global_constant((params.seqs + task.seq).template as<std::int64_t>());
}

/// Where chunks (8 neighbouring components, 16 bytes) of rows of `dim` components stand. Within groups of 8 chunks, or
/// of 4 where a row is not whole groups of 8, chunks are exchanged by the row's number: 8 rows of one chunk (ldmatrix)
/// and 8 chunks side by side (copies) both lie on different banks. Places are counted in elements.
template <int dim>
struct Swizzle {
  static constexpr int kChunks = dim / 8;
  static constexpr int kGroup = kChunks % 8 == 0 ? 8 : 4;
  static_assert(kChunks % kGroup == 0);

  KVLAB_HOST_DEVICE static constexpr int place(int row, int chunk) {
    const int exchanged = kGroup == 8 ? row & 7 : row >> 1 & 3;
    return (row * kChunks + (chunk ^ exchanged)) * 8;
  }
  /// The place `rows` (a multiple of 8) below and `groups` groups of chunks to the right.
  KVLAB_HOST_DEVICE static constexpr int moved(int place, int rows, int groups) {
    return place + rows * dim + groups * kGroup * 8;
  }
  /// From the place of chunk 0 or 1 of a row to that of chunk 2 * step or 2 * step + 1 of the row `rows` (a multiple of
  /// 8) below. Few additions: constant rows and groups become part of the instruction.
  KVLAB_HOST_DEVICE static constexpr int stepped(int place, int rows, int step) {
    return moved(place ^ 2 * step % kGroup * 8, rows, 2 * step / kGroup);
  }
};

/// Stage s of K, V and key_starts belongs to the key blocks b with b % 2 == s.
template <typename Tile>
struct PrefillStorage {
  SharedArray<Bf16, Tile::kRows * Tile::kDim> q;          // [row, component], swizzled
  SharedArray<Bf16, 2 * Tile::kKeys * Tile::kDim> k;      // [stage, key, component], swizzled
  SharedArray<Bf16, 2 * Tile::kKeys * Tile::kDim> v;      // [stage, key, component], swizzled
  SharedArray<std::int64_t, 2 * Tile::kKeys> key_starts;  // [stage, key]: elements from kv.k or kv.v to its row
};

/// What a lane has of its rows so far. Fragments as mma.sync lays them out: with g = lane / 4 and t = lane % 4, entries
/// 0 and 1 of block b are of row 16 b + g, 2 and 3 of row 16 b + 8 + g; slot 2 b + i / 2 has their largest and total.
template <typename Tile>
struct PrefillSums {
  static constexpr int kSlots = 2 * Tile::kRowBlocks;
  float row[Tile::kRowBlocks][Tile::kDim / 8][4];  // sums of weight times V, components 8 n + 2 t and the next
  float largest[kSlots];                           // score times scale, over the quad's keys; -inf: none yet
  float total[kSlots];                             // sum of the weights of this lane's keys
};

template <typename Tile>
using PrefillScores = float[Tile::kRowBlocks][Tile::kKeys / 8][4];  // of keys 8 n + 2 t and the next
template <typename Tile>
using PrefillWeights = std::uint32_t[Tile::kRowBlocks][Tile::kKeys / 16][4];  // bf16, operands of the second product

template <typename Tile>
KVLAB_DEVICE void clear_sums(PrefillSums<Tile>& sums) {
  KVLAB_UNROLL
  for (int b = 0; b < Tile::kRowBlocks; ++b) {
    KVLAB_UNROLL
    for (int n = 0; n < Tile::kDim / 8; ++n) {
      KVLAB_UNROLL
      for (int i = 0; i < 4; ++i) sums.row[b][n][i] = 0.0F;
    }
  }
  KVLAB_UNROLL
  for (int slot = 0; slot < PrefillSums<Tile>::kSlots; ++slot) {
    sums.largest[slot] = -INFINITY;
    sums.total[slot] = 0.0F;
  }
}

}  // namespace kvlab::cuda
