// The body that collects a sequence's K or V from its pages, for matrix products that need it in one piece.
#pragma once

#include <cstdint>

#include "kernels/cuda/kv_view.cuh"
#include "kernels/cuda/memory.cuh"

namespace kvlab::cuda {

constexpr int kCollectKvBlock = 128;

/// out[h, pos, :] = the row of head h at position pos. T: the view's type. Grid: kv_len blocks along x, n_kv_heads
/// along y; block: kCollectKvBlock threads; no shared memory. A thread copies n neighbours (n > 1: 16 bytes; then
/// head_dim and strides are multiples of n and addresses aligned). Reads and writes each row once, and the page table
/// once a row.
template <typename T, int n>
KVLAB_KERNEL void collect_kv_kernel(DeviceKvView<const T> kv,  // its k is what is collected
                                    int seq, int kv_len, int head_dim,
                                    Global<T> out) {  // [n_kv_heads, kv_len, head_dim]
  using Values = Vector<T, n>;
  const int pos = block_x();
  const int head = block_y();
  wait_for_previous_launch();
  const KvSlot place = kv_slot(kv, pos);
  const Global<const T> from = kv.k + kv_row_offset(kv, kv_page_start(kv, seq, place.page), head, place.slot);
  const Global<T> to = out + (std::int64_t{head} * kv_len + pos) * head_dim;
  for (int first = 0; first < head_dim; first += kCollectKvBlock * n) {
    const int at = first + thread_x() * n;
    const bool inside = at < head_dim;
    store_global_if(inside, (to + at).template as<Values>(),
                    load_global_if(inside, (from + at).template as<Values>(), Values{}));
  }
}

}  // namespace kvlab::cuda
