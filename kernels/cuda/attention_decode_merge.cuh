// The body that puts the splits of decode attention together: a block takes one head of one sequence.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention_decode_layout.cuh"
#include "kernels/cuda/decode_plan.h"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

constexpr int kDecodeMergeBlock = kMaxDecodeHeadDim / 4;  // a thread takes four components

/// out = the splits' rows, weighed by their largest scores, over the sum of their weights.
/// Grid: n_heads x n_seqs; block: kDecodeMergeBlock threads; no shared memory. Sequences of at most one live split are
/// done already: their blocks leave at once.
template <typename T>
KVLAB_KERNEL void attention_decode_merge_kernel(DecodeParams<T> params, std::int32_t n_splits, std::int32_t tile_keys) {
  wait_for_previous_launch();
  const std::int64_t seq = block_y();
  const KeyRange visible = visible_keys(load_global(params.kv_lens + seq), params.window);
  const int n_live = live_splits(visible.end - visible.begin, n_splits, tile_keys);
  if (n_live <= 1) return;
  const std::int64_t first = (seq * params.n_heads + block_x()) * n_splits;
  float largest = kNoScore;
  for (int split = 0; split < n_live; ++split) {
    const float of_split = load_global(params.partial_sums + first + split)[0];
    largest = of_split > largest ? of_split : largest;
  }
  const int component = thread_x() * 4;
  const bool is_inside = component < params.head_dim;
  float total = 0.0F;
  Float4 row{};
  for (int split = 0; split < n_live; ++split) {
    const SplitSum sum = load_global(params.partial_sums + first + split);
    const Global<const float> from = params.partial_rows + (first + split) * params.head_dim + component;
    const Float4 part = load_global_if(is_inside, from.template as<Float4>(), Float4{});
    const float weight = exp2_approx(sum[0] - largest);
    total += weight * sum[1];
    for (int e = 0; e < 4; ++e) row[e] += weight * part[e];
  }
  for (int e = 0; e < 4; ++e) row[e] /= total;
  const Global<float> to = params.out + seq * params.out_stride + std::int64_t{block_x()} * params.head_dim + component;
  store_global_if(is_inside, to.template as<Float4>(), row);
}

}  // namespace kvlab::cuda
