// The body of the softmax between naive attention's two matrix products: a block takes a row of scores.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

constexpr int kMaskedSoftmaxBlock = 256;

struct MaskedSoftmaxStorage {
  SharedArray<float, kMaskedSoftmaxBlock / kWarpSize> largest;
  SharedArray<float, kMaskedSoftmaxBlock / kWarpSize> sums;
};

/// Which keys a row of scores sees: query i of n_queries stands at position kv_len - n_queries + i and sees keys up to
/// its own position, with a window w > 0 only the last w of them.
struct ScoreMask {
  int n_queries;
  int kv_len;
  int window;
};

/// weights[r, j] = exp(scale * (scores[r, j] - max)) / sum over the keys that the row sees, 0 for the others; a row
/// that sees none is 0. Row r is query r % n_queries of its head. Rounded to Out (float or Bf16). scale > 0. Grid:
/// n_heads * n_queries blocks; block: kMaskedSoftmaxBlock threads; shared: MaskedSoftmaxStorage. Thread i takes the
/// accesses i, i + 256, … of n neighbours (n = 4: 16 bytes; then strides are multiples of 4 and addresses are aligned;
/// the last access may reach into the padding between kv_len and the stride, of which it keeps nothing and writes
/// zeros). Reads the accesses with a visible key three times, twice from L2; writes every weight once. In place is
/// allowed when Out is float: a thread writes only what it alone has read.
template <typename Out, int n>
KVLAB_KERNEL void masked_softmax_kernel(Global<const float> scores,  // [n_heads * n_queries, kv_len], stride apart
                                        std::int64_t stride, ScoreMask mask, float scale,
                                        Global<Out> weights,  // [n_heads * n_queries, kv_len], weights_stride apart
                                        std::int64_t weights_stride) {
  auto& shared = shared_storage<MaskedSoftmaxStorage>();
  using In = Vector<float, n>;
  using Result = Vector<Out, n>;
  const int pos = mask.kv_len - mask.n_queries + block_x() % mask.n_queries;
  const int end = pos + 1;  // keys [first, end) are visible
  const int first = mask.window > 0 && end > mask.window ? end - mask.window : 0;
  const Global<const float> from = scores + block_x() * stride;
  const Global<Out> to = weights + block_x() * weights_stride;
  const int n_steps = (mask.kv_len + kMaskedSoftmaxBlock * n - 1) / (kMaskedSoftmaxBlock * n);
  constexpr float kNothing = -INFINITY;
  wait_for_previous_launch();
  float largest = kNothing;
  for (int step = 0; step < n_steps; ++step) {
    const int at = (step * kMaskedSoftmaxBlock + thread_x()) * n;
    const In values = load_global_if(at < end && at + n > first, (from + at).template as<In>(), In{});
    for (int i = 0; i < n; ++i) {
      const bool visible = at + i >= first && at + i < end;
      largest = visible ? std::fmax(largest, values[i]) : largest;
    }
  }
  largest = block_max(largest, shared.largest);
  float sum = 0.0F;
  for (int step = 0; step < n_steps; ++step) {
    const int at = (step * kMaskedSoftmaxBlock + thread_x()) * n;
    const In values = load_global_if(at < end && at + n > first, (from + at).template as<In>(), In{});
    for (int i = 0; i < n; ++i) {
      const bool visible = at + i >= first && at + i < end;
      sum += visible ? std::exp(scale * (values[i] - largest)) : 0.0F;
    }
  }
  const float factor = 1.0F / block_sum(sum, shared.sums);  // unused where nothing is visible
  for (int step = 0; step < n_steps; ++step) {
    const int at = (step * kMaskedSoftmaxBlock + thread_x()) * n;
    const In values = load_global_if(at < end && at + n > first, (from + at).template as<In>(), In{});
    Result result;
    for (int i = 0; i < n; ++i) {
      const bool visible = at + i >= first && at + i < end;
      result[i] = rounded_to<Out>(visible ? std::exp(scale * (values[i] - largest)) * factor : 0.0F);
    }
    store_global_if(at < mask.kv_len, (to + at).template as<Result>(), result);
  }
}

}  // namespace kvlab::cuda
