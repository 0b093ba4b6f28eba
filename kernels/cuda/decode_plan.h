// How a step of decode attention is cut into blocks, and the K and V bytes that this costs: for launchers, kernels and
// whoever compares counted bytes with modelled ones. Includes no CUDA header; attention_decode.h has the launch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/cuda/host_device.h"
#include "kernels/dtype.h"
#include "kernels/error.h"
#include "kernels/views.h"

namespace kvlab::cuda {

constexpr int kDecodeWarps = 4;           // of a block
constexpr int kDecodeStages = 3;          // steps whose K and V are in shared memory or on their way there
constexpr int kDecodeLaneComponents = 8;  // of a row of K or V that one lane holds
constexpr int kDecodeLaneChunks = 4;      // 16-byte pieces of K, and of V, that one lane takes in a step
constexpr int kMaxDecodeHeadDim = 256;
constexpr std::int64_t kMaxDecodeSplits = 256;  // the merge reads them one after the other
constexpr std::int64_t kMaxGridRows = 65535;    // blocks along y and z

/// One query row for each sequence.
struct DecodeShape {
  std::int64_t n_seqs = 0;
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;  // a multiple of 8, at most 256
  std::int64_t window = 0;    // 0: none; otherwise the last so many keys are seen
  DType dtype = DType::f32;   // of K and V
};

/// The grid is n_splits x (n_kv_heads * n_passes) x n_seqs, whatever the lengths are.
struct DecodePlan {
  int instance_dim = 0;       // the kernel's: 32, 64, 128 or 256
  int heads_per_pass = 0;     // query heads that share one reading of K and V: 1, 2 or 4
  std::int64_t n_passes = 0;  // times that K and V of a KV head are read: ceil(group / heads_per_pass)
  std::int64_t n_splits = 0;  // blocks among which the keys of a sequence are divided
};

struct KeyRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

/// Keys of K and V that a block takes in one step, over all its warps.
KVLAB_HOST_DEVICE constexpr int decode_tile_keys(int instance_dim, std::size_t element_bytes) {
  const int lanes_per_key = instance_dim / kDecodeLaneComponents;
  const int chunks_per_key = kDecodeLaneComponents * static_cast<int>(element_bytes) / 16;
  return kDecodeWarps * (32 / lanes_per_key) * (kDecodeLaneChunks / chunks_per_key);
}

/// Keys that the newest position of a sequence sees.
KVLAB_HOST_DEVICE constexpr KeyRange visible_keys(std::int32_t kv_len, std::int32_t window) {
  return {window > 0 && kv_len > window ? kv_len - window : 0, kv_len};
}

/// Keys of each split but the last: an even share, rounded up to whole tiles.
KVLAB_HOST_DEVICE constexpr std::int32_t keys_per_split(std::int32_t n_keys, std::int32_t n_splits,
                                                        std::int32_t tile_keys) {
  const std::int32_t n_tiles = (n_keys + tile_keys - 1) / tile_keys;
  return (n_tiles + n_splits - 1) / n_splits * tile_keys;
}

/// Splits that own a key; the later ones have nothing to do.
KVLAB_HOST_DEVICE constexpr std::int32_t live_splits(std::int32_t n_keys, std::int32_t n_splits,
                                                     std::int32_t tile_keys) {
  return n_keys == 0 ? 0 : (n_keys - 1) / keys_per_split(n_keys, n_splits, tile_keys) + 1;
}

/// The part of `keys` that a split owns; empty when none is left for it.
KVLAB_HOST_DEVICE constexpr KeyRange split_keys(KeyRange keys, std::int32_t split, std::int32_t n_splits,
                                                std::int32_t tile_keys) {
  const std::int32_t n_keys = keys.end - keys.begin;
  if (split >= live_splits(n_keys, n_splits, tile_keys)) return {keys.end, keys.end};
  const std::int32_t share = keys_per_split(n_keys, n_splits, tile_keys);
  const std::int32_t begin = keys.begin + split * share;
  return {begin, keys.end - begin < share ? keys.end : begin + share};
}

/// Throws InputError when no kernel can run the shape.
inline void check_decode_shape(const DecodeShape& shape) {
  if (shape.head_dim < 8 || shape.head_dim > kMaxDecodeHeadDim || shape.head_dim % 8 != 0) {
    throw InputError("decode attention on CUDA: head_dim is " + std::to_string(shape.head_dim) +
                     "; it takes multiples of 8 up to " + std::to_string(kMaxDecodeHeadDim) +
                     "; use --decode-attention naive");
  }
  if (shape.n_kv_heads < 1 || shape.n_heads < 1 || shape.n_heads % shape.n_kv_heads != 0) {
    throw InputError("decode attention on CUDA: " + std::to_string(shape.n_heads) + " heads cannot share " +
                     std::to_string(shape.n_kv_heads) + " KV heads evenly");
  }
  if (shape.n_seqs < 0 || shape.n_seqs > kMaxGridRows) {
    throw InputError("decode attention on CUDA: a batch of " + std::to_string(shape.n_seqs) + "; it takes at most " +
                     std::to_string(kMaxGridRows));
  }
}

/// `n_blocks` is how many blocks the device holds at once (SMs x blocks per SM); the keys are split until the grid has
/// about as many. Throws InputError when no kernel can run the shape.
inline DecodePlan plan_decode(const DecodeShape& shape, std::int64_t n_blocks) {
  check_decode_shape(shape);
  DecodePlan plan;
  plan.instance_dim = 32;
  while (plan.instance_dim < shape.head_dim) plan.instance_dim *= 2;
  const std::int64_t group = shape.n_heads / shape.n_kv_heads;
  plan.heads_per_pass = group == 1 ? 1 : group == 2 ? 2 : 4;
  plan.n_passes = (group + plan.heads_per_pass - 1) / plan.heads_per_pass;
  const std::int64_t rows = shape.n_kv_heads * plan.n_passes;
  if (rows > kMaxGridRows) {
    throw InputError("decode attention on CUDA: " + std::to_string(shape.n_heads) + " heads need " +
                     std::to_string(rows) + " rows of blocks; a grid has " + std::to_string(kMaxGridRows));
  }
  plan.n_splits =
      std::clamp<std::int64_t>(n_blocks / std::max<std::int64_t>(rows * shape.n_seqs, 1), 1, kMaxDecodeSplits);
  return plan;
}

/// Floats that the splits leave for the merge: an output row, its largest score and its sum, for every head and split.
inline std::int64_t decode_workspace_floats(const DecodeShape& shape, const DecodePlan& plan) {
  return plan.n_splits == 1 ? 0 : shape.n_seqs * shape.n_heads * plan.n_splits * (shape.head_dim + 2);
}

/// Bytes of K that a step reads from memory or cache; as many of V. The page table, Q and the workspace are not in it.
inline std::int64_t decode_k_bytes(const DecodeShape& shape, const DecodePlan& plan,
                                   std::span<const std::int32_t> kv_lens) {
  std::int64_t n_keys = 0;
  for (const std::int32_t kv_len : kv_lens) {
    const KeyRange keys = visible_keys(kv_len, static_cast<std::int32_t>(shape.window));
    n_keys += keys.end - keys.begin;
  }
  return n_keys * shape.n_kv_heads * shape.head_dim * static_cast<std::int64_t>(dtype_bytes(shape.dtype)) *
         plan.n_passes;
}

/// Throws InputError when a sequence is longer than its row of the page table. kv_lens [n_seqs], on the host.
inline void check_decode_lengths(const KvView& kv, std::span<const std::int32_t> kv_lens) {
  for (std::size_t seq = 0; seq < kv_lens.size(); ++seq) {
    if (kv_lens[seq] >= 0 && (kv.page_table == nullptr || kv_lens[seq] <= kv.pages_per_seq * kv.page_size)) continue;
    throw InputError("decode attention on CUDA: sequence " + std::to_string(seq) + " has " +
                     std::to_string(kv_lens[seq]) + " keys; its row of the page table holds " +
                     std::to_string(kv.pages_per_seq * kv.page_size));
  }
}

}  // namespace kvlab::cuda
