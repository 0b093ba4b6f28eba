// The body of append: a step's K and V rows go to their slots of the cache.
#pragma once

#include <cstdint>

#include "kernels/cuda/kv_view.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

constexpr int kAppendBlock = 128;

/// Row first_row + i of a sequence goes to slot kv_len - n_queries + i, rounded to Kv (float or Bf16); with v null only
/// the K side is written. Grid: max_queries x n_seqs x 2 (K, V; 1 without V) blocks, of which those beyond a
/// sequence's rows leave; block: kAppendBlock threads; no shared memory. A block takes a row of all heads, a thread n
/// neighbours at a time (n = 4: 16-byte loads; then head_dim and strides are multiples of 4 and addresses aligned).
/// Every row is read and written once; a block reads its sequence's span once and the page table once a head.
template <typename Kv, int n>
KVLAB_KERNEL void append_kernel(Global<const float> k,  // [n_rows, n_kv_heads * head_dim], stride apart
                                Global<const float> v,  // the same
                                std::int64_t stride, int n_kv_heads, int head_dim,
                                Global<const SequenceSpan> seqs,  // [n_seqs]
                                DeviceKvView<Kv> kv) {
  using Values = Vector<float, n>;
  using Stored = Vector<Kv, n>;
  const int seq = block_y();
  wait_for_previous_launch();
  const Global<const std::int64_t> span = (seqs + seq).template as<std::int64_t>();  // first_row, n_queries, kv_len
  const std::int64_t n_queries = load_global_constant(span + 1);
  if (block_x() >= n_queries) return;
  const std::int64_t row = load_global_constant(span) + block_x();
  const int pos = static_cast<int>(load_global_constant(span + 2) - n_queries) + block_x();
  const bool is_value = block_z() == 1;
  const Global<const float> from = (is_value ? v : k) + row * stride;
  const Global<Kv> to = is_value ? kv.v : kv.k;
  const KvSlot place = kv_slot(kv, pos);
  const int width = n_kv_heads * head_dim;
  for (int first = 0; first < width; first += kAppendBlock * n) {
    const int at = first + thread_x() * n;
    const bool inside = at < width;
    const int head = inside ? at / head_dim : 0;
    const Values values = load_global_if(inside, (from + at).template as<Values>(), Values{});
    Stored stored;
    for (int i = 0; i < n; ++i) stored[i] = rounded_to<Kv>(values[i]);
    const std::int64_t offset = kv_row_offset(kv, kv_page_start(kv, seq, place.page), head, place.slot);
    store_global_if(inside, (to + (offset + at - head * head_dim)).template as<Stored>(), stored);
  }
}

}  // namespace kvlab::cuda
