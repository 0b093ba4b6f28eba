// How prefill attention is cut into tiles, which keys a tile and each of its warps walk, and the bytes and FLOPs that
// this costs: for launchers, kernels and whoever compares counted work with modelled work. Includes no CUDA header;
// attention_prefill.h has the launch.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/host_device.h"
#include "kernels/views.h"

namespace kvlab::cuda {

constexpr int kMaxPrefillHeadDim = 256;

/// A block's tile: kRows rows against kKeys keys at a time. A row is one query of one head; the heads of a group and
/// their queries fill the rows in that order, query by query, so that all rows of a tile read the same K and V. Each
/// warp owns kWarpRows of the rows.
template <int dim, int keys, int row_blocks, int warps>
struct PrefillTile {
  static constexpr int kDim = dim;
  static constexpr int kKeys = keys;
  static constexpr int kRowBlocks = row_blocks;  // of a warp, 16 rows each
  static constexpr int kWarps = warps;
  static constexpr int kWarpRows = 16 * row_blocks;
  static constexpr int kRows = kWarpRows * warps;
  static constexpr int kThreads = 32 * warps;
};

// docs/kernels/cuda_prefill_attention.md says why these.
using PrefillTile32 = PrefillTile<32, 64, 2, 4>;
using PrefillTile64 = PrefillTile<64, 64, 2, 4>;
using PrefillTile96 = PrefillTile<96, 64, 2, 4>;
using PrefillTile128 = PrefillTile<128, 32, 2, 4>;
using PrefillTile256 = PrefillTile<256, 32, 1, 8>;

/// The head size of the instance that runs `head_dim`, or 0: none does.
constexpr int prefill_instance_dim(std::int64_t head_dim) {
  if (head_dim < 8 || head_dim > kMaxPrefillHeadDim || head_dim % 8 != 0) return 0;
  return head_dim <= 32 ? 32 : head_dim <= 64 ? 64 : head_dim <= 96 ? 96 : head_dim <= 128 ? 128 : 256;
}

/// f(tile of the instance). instance_dim: what prefill_instance_dim gave, not 0.
template <typename Function>
auto with_prefill_tile(int instance_dim, Function f) {
  switch (instance_dim) {
    case 32:
      return f(PrefillTile32{});
    case 64:
      return f(PrefillTile64{});
    case 96:
      return f(PrefillTile96{});
    case 128:
      return f(PrefillTile128{});
    default:
      return f(PrefillTile256{});
  }
}

/// Positions [begin, end) of a sequence, or blocks of them.
struct KeyRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

/// What decides which keys the rows of one sequence and KV head see.
struct PrefillMask {
  std::int32_t n_queries = 0;  // query i stands at position kv_len - n_queries + i
  std::int32_t kv_len = 0;
  std::int32_t group = 1;   // query heads of a KV head: row r is query r / group
  std::int32_t window = 0;  // 0: none; otherwise the last so many keys are seen

  KVLAB_HOST_DEVICE constexpr std::int32_t n_rows() const { return n_queries * group; }
  KVLAB_HOST_DEVICE constexpr std::int32_t position(std::int32_t row) const { return kv_len - n_queries + row / group; }
  /// The first key that a position sees.
  KVLAB_HOST_DEVICE constexpr std::int32_t first_key(std::int32_t position) const {
    return window > 0 && position >= window ? position - window + 1 : 0;
  }
  /// The keys that some of rows [first, end) see; rows past n_rows() are not there.
  KVLAB_HOST_DEVICE constexpr KeyRange keys_of(std::int32_t first, std::int32_t end) const {
    const std::int32_t last = (end < n_rows() ? end : n_rows()) - 1;
    if (last < first || position(last) < 0) return {};
    return {first_key(position(first)), position(last) + 1};
  }
  /// Whether each of rows [first, end) that is there sees all of `keys`.
  KVLAB_HOST_DEVICE constexpr bool all_see(std::int32_t first, std::int32_t end, KeyRange keys) const {
    const std::int32_t last = (end < n_rows() ? end : n_rows()) - 1;
    return keys.end <= position(first) + 1 && keys.begin >= first_key(position(last));
  }
};

/// The blocks of `block_keys` keys, counted from key 0, that hold some of `keys`. Blocks start at the same keys for
/// every tile, so that a row's sums do not depend on where in a batch or chunk it stands.
KVLAB_HOST_DEVICE constexpr KeyRange key_blocks(KeyRange keys, std::int32_t block_keys) {
  if (keys.begin >= keys.end) return {};
  return {keys.begin / block_keys, (keys.end + block_keys - 1) / block_keys};
}

struct PrefillShape {
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;
};

/// What a call executes.
struct PrefillWork {
  std::int64_t k_bytes = 0;     // of K that its blocks read, from memory or cache; as many of V
  std::int64_t key_blocks = 0;  // walked by tiles: copies into shared memory
  std::int64_t mma_flops = 0;   // of the matrix products, rows and keys that are masked or padding included
};

/// The work of one sequence and KV head, by the kernel's own bounds.
template <typename Tile>
PrefillWork prefill_work_of(const PrefillMask& mask, std::int64_t head_dim) {
  PrefillWork work;
  for (std::int32_t first = 0; first < mask.n_rows(); first += Tile::kRows) {
    const KeyRange keys = mask.keys_of(first, first + Tile::kRows);
    const KeyRange blocks = key_blocks(keys, Tile::kKeys);
    work.k_bytes += (keys.end - keys.begin) * head_dim * 2;
    work.key_blocks += blocks.end - blocks.begin;
    for (std::int32_t row = first; row < first + Tile::kRows; row += Tile::kWarpRows) {
      const KeyRange walked = key_blocks(mask.keys_of(row, row + Tile::kWarpRows), Tile::kKeys);
      work.mma_flops += std::int64_t{walked.end - walked.begin} * 4 * Tile::kWarpRows * Tile::kKeys * Tile::kDim;
    }
  }
  return work;
}

/// The work of a whole call. prefill_instance_dim(head_dim) is not 0.
inline PrefillWork prefill_work(const PrefillShape& shape, std::span<const SequenceSpan> seqs) {
  PrefillWork sum;
  for (const SequenceSpan& seq : seqs) {
    const PrefillMask mask{static_cast<std::int32_t>(seq.n_queries), static_cast<std::int32_t>(seq.kv_len),
                           static_cast<std::int32_t>(shape.n_heads / shape.n_kv_heads),
                           static_cast<std::int32_t>(shape.window)};
    const PrefillWork one = with_prefill_tile(prefill_instance_dim(shape.head_dim), [&]<typename Tile>(Tile) {
      return prefill_work_of<Tile>(mask, shape.head_dim);
    });
    sum.k_bytes += one.k_bytes * shape.n_kv_heads;
    sum.key_blocks += one.key_blocks * shape.n_kv_heads;
    sum.mma_flops += one.mma_flops * shape.n_kv_heads;
  }
  return sum;
}

}  // namespace kvlab::cuda
