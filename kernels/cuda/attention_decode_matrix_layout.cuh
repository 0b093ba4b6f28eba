// Decode attention on tensor cores: who takes which keys, where rows stand in shared memory, and what a lane carries.
// attention_decode_matrix.cuh has the work.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention_decode_task.cuh"
#include "kernels/cuda/decode_kernel.h"
#include "kernels/cuda/memory.cuh"

namespace kvlab::cuda {

using Bf16x8 = Vector<Bf16, 8>;  // a chunk: 16 bytes of a row

/// Each warp has keys of its own in every step: kWarpKeys of them, in a ring of its own.
template <int dim>
struct MatrixDecodeTiles {
  static constexpr int kWarps = matrix_decode_warps(dim);
  static constexpr int kBlock = kWarps * kWarpSize;
  static constexpr int kWarpKeys = matrix_decode_warp_keys(dim);
  static constexpr int kTile = kWarps * kWarpKeys;
  static constexpr int kChunks = dim / 8;                          // of a row
  static constexpr int kCopies = kWarpKeys * kChunks / kWarpSize;  // of a lane in a step, of K and as many of V
  static constexpr int kCopiesAtOnce = kCopies < 8 ? kCopies : 8;  // of the same
  static constexpr int kSide = kWarpKeys * kChunks;                // chunks of K, or of V, of a warp in a step
  static constexpr int kRing = kDecodeStages * 2 * kSide;          // chunks of a warp's ring
  static constexpr int kOutRow = dim + 8;  // floats from one row of output to the next; the 8 keep banks apart

  /// Where a chunk of a row stands. Chunks are exchanged within groups of eight (of four, where a row is an odd number
  /// of those), so that eight neighbouring rows have their chunks of one column on different banks.
  KVLAB_DEVICE static int place(int row, int chunk) {
    const int exchanged = kChunks % 8 == 0 ? row % 8 : row / 2 % 4;
    return row * kChunks + (chunk ^ exchanged);
  }
};

template <int dim>
struct MatrixDecodeStorage {
  using Tiles = MatrixDecodeTiles<dim>;
  static_assert(Tiles::kRing * 16 >= kMatrixHeads * Tiles::kOutRow * 4, "a warp's output fits into its ring");
  SharedArray<Bf16x8, kMatrixHeads * Tiles::kChunks> query;  // [head, chunk]
  /// [warp, stage, K or V, key, chunk]. At the end of a part: [warp, head, kOutRow] floats of output.
  SharedArray<Bf16x8, Tiles::kWarps * Tiles::kRing> ring;
  SharedArray<float, Tiles::kWarps * kMatrixHeads> largest;  // [warp, head]
  SharedArray<float, Tiles::kWarps * kMatrixHeads> total;    // [warp, head]

  /// The first chunk of K (side 0) or V (1) of this warp's step.
  KVLAB_DEVICE Shared<Bf16x8> stage(int step, int side) {
    return ring.at(warp_id() * Tiles::kRing + (step % kDecodeStages * 2 + side) * Tiles::kSide);
  }
  KVLAB_DEVICE Shared<float> output(int warp, int head) {
    return ring.at(warp * Tiles::kRing).template as<float>() + head * Tiles::kOutRow;
  }
};

/// A lane's share of its warp's sums, as fragments of a matrix product hold them: heads lane / 4 and lane / 4 + 8.
template <int dim>
struct MatrixDecodeSums {
  float largest[2];
  float total[2];         // of the lane's own keys
  float row[dim / 8][4];  // of output: 16 heads x 8 components
};

/// Where a lane's key of one step is, looked up a step ahead of the copies. `page` is the table's entry.
struct KeyPlace {
  std::int32_t page;
  std::int32_t slot;
};

}  // namespace kvlab::cuda
