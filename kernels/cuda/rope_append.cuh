// The body of rotation and append in one: a step's Q, K and V rows go from the projection to where attention reads
// them.
#pragma once

#include <cstdint>

#include "kernels/cuda/kv_view.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

constexpr int kRopeAppendBlock = 128;

/// What both sides must agree on about a row of the projection: n_heads query heads, then n_kv_heads of K, then of V.
struct QkvShape {
  int n_heads;
  int n_kv_heads;
  int head_dim;  // even
};

/// Q and K of row r are rotated by the row `positions[r]` of cos_sin (not at all when it is null); Q goes to q_out, K
/// and V to slot positions[r] of sequence seqs[r], rounded to QOut and Kv (float or Bf16). Grid: n_rows x ceil(work /
/// kRopeAppendBlock) blocks, where a row's work is (n_heads + 2 n_kv_heads) * head_dim / (2 n) threads; block:
/// kRopeAppendBlock threads; no shared memory. A thread takes n neighbours of a head's first half and their partners of
/// the second (n = 4: 16-byte accesses of floats; then head_dim is a multiple of 8, strides of 4, and addresses are
/// aligned), so neighbours read and write neighbours. Reads qkv once, cos_sin once a head (from L1 after the first),
/// writes q_out, K and V once. q_out may be the query part of qkv when QOut is float: a thread writes only what it
/// alone has read.
template <typename QOut, typename Kv, int n>
KVLAB_KERNEL void rope_append_kernel(Global<const float> qkv,  // [n_rows, (n_heads + 2 n_kv_heads) * head_dim]
                                     std::int64_t qkv_stride, QkvShape shape,
                                     Global<const std::int32_t> positions,  // [n_rows]
                                     Global<const std::int32_t> seqs,       // [n_rows]
                                     Global<const float> cos_sin,           // [n_positions, head_dim], or null
                                     Global<QOut> q_out,                    // [n_rows, n_heads * head_dim]
                                     std::int64_t q_out_stride, DeviceKvView<Kv> kv) {
  using Values = Vector<float, n>;
  using Queries = Vector<QOut, n>;
  using Stored = Vector<Kv, n>;
  const int half = shape.head_dim / 2;
  const int threads_per_head = half / n;
  const int item = block_y() * kRopeAppendBlock + thread_x();
  const int head = item / threads_per_head;
  const int at = (item - head * threads_per_head) * n;
  const bool inside = head < shape.n_heads + 2 * shape.n_kv_heads;
  const bool is_query = head < shape.n_heads;
  const bool is_value = head >= shape.n_heads + shape.n_kv_heads;
  const std::int64_t row = block_x();
  const Global<const float> from = qkv + (row * qkv_stride + std::int64_t{head} * shape.head_dim + at);
  wait_for_previous_launch();
  Values first = load_global_if(inside, from.template as<Values>(), Values{});
  Values second = load_global_if(inside, (from + half).template as<Values>(), Values{});
  const int pos = load_global_constant(positions + row);
  if (cos_sin) {
    const bool rotated = inside && !is_value;
    const Global<const float> angles = cos_sin + (std::int64_t{pos} * shape.head_dim + at);
    const Values cosines = load_global_constant_if(rotated, angles.template as<Values>(), Values{});
    const Values sines = load_global_constant_if(rotated, (angles + half).template as<Values>(), Values{});
    for (int i = 0; i < n; ++i) {
      const float a = first[i];
      const float b = second[i];
      first[i] = rotated ? a * cosines[i] - b * sines[i] : a;
      second[i] = rotated ? b * cosines[i] + a * sines[i] : b;
    }
  }
  Queries query[2];
  Stored stored[2];
  for (int i = 0; i < n; ++i) {
    query[0][i] = rounded_to<QOut>(first[i]);
    query[1][i] = rounded_to<QOut>(second[i]);
    stored[0][i] = rounded_to<Kv>(first[i]);
    stored[1][i] = rounded_to<Kv>(second[i]);
  }
  const Global<QOut> q_to = q_out + (row * q_out_stride + std::int64_t{head} * shape.head_dim + at);
  store_global_if(inside && is_query, q_to.template as<Queries>(), query[0]);
  store_global_if(inside && is_query, (q_to + half).template as<Queries>(), query[1]);
  const int kv_head = is_query ? 0 : (head - shape.n_heads) % shape.n_kv_heads;
  const KvSlot place = kv_slot(kv, pos);
  const std::int64_t page_start = kv_page_start(kv, load_global_constant(seqs + row), place.page);
  const Global<Kv> kv_to = (is_value ? kv.v : kv.k) + (kv_row_offset(kv, page_start, kv_head, place.slot) + at);
  store_global_if(inside && !is_query, kv_to.template as<Stored>(), stored[0]);
  store_global_if(inside && !is_query, (kv_to + half).template as<Stored>(), stored[1]);
}

}  // namespace kvlab::cuda
