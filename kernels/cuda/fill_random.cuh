// The bodies that draw values by formula into device memory: a flat array, or K and V of a cache.
#pragma once

#include <cstdint>

#include "kernels/cuda/kv_view.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/random_kv.h"

namespace kvlab::cuda {

constexpr int kFillBlock = 256;

template <typename T, int n>
KVLAB_DEVICE Vector<T, n> random_vector(const RandomValues& values, std::uint64_t first) {
  Vector<T, n> result;
  KVLAB_UNROLL
  for (int i = 0; i < n; ++i) result[i] = rounded_to<T>(random_value(values, first + static_cast<std::uint64_t>(i)));
  return result;
}

/// out[i] = element first + i. T: float or Bf16.
/// Grid: any number of blocks, which stride over the array; block: kFillBlock threads; no shared memory. A thread
/// writes n neighbours at a time (n > 1: size is a multiple of n, and out is aligned to the access). Reads nothing.
template <typename T, int n>
KVLAB_KERNEL void fill_random_kernel(RandomValues values, std::uint64_t first, std::int64_t size,
                                     Global<T> out) {  // [size]
  wait_for_previous_launch();
  const std::int64_t step = std::int64_t{grid_size_x()} * kFillBlock * n;
  for (std::int64_t at = (std::int64_t{block_x()} * kFillBlock + thread_x()) * n; at < size; at += step) {
    store_global((out + at).template as<Vector<T, n>>(),
                 random_vector<T, n>(values, first + static_cast<std::uint64_t>(at)));
  }
}

/// K and V of positions 0 .. n_tokens - 1. Grid: blocks over the accesses of n neighbours of all positions x KV heads x
/// sequences; block: kFillBlock threads; no shared memory. n > 1: head_dim is a multiple of n, and rows begin at
/// aligned addresses. Reads the page table, or the regions' starts; writes every row once.
template <typename T, int n>
KVLAB_KERNEL void fill_kv_kernel(RandomKv values, int n_tokens, int head_dim, DeviceKvView<T> view) {
  wait_for_previous_launch();
  const int accesses = head_dim / n;  // a row
  const std::int64_t item = std::int64_t{block_x()} * kFillBlock + thread_x();
  const auto pos = static_cast<int>(item / accesses);
  if (pos >= n_tokens) return;
  const int component = static_cast<int>(item - std::int64_t{pos} * accesses) * n;
  const int head = block_y();
  const int seq = block_z();
  const KvSlot at = kv_slot(view, pos);
  const std::int64_t offset = kv_row_offset(view, kv_page_start(view, seq, at.page), head, at.slot) + component;
  const std::uint64_t first = random_kv_row(values, seq, head, pos, head_dim) + static_cast<std::uint64_t>(component);
  store_global((view.k + offset).template as<Vector<T, n>>(), random_vector<T, n>(values.k, first));
  store_global((view.v + offset).template as<Vector<T, n>>(), random_vector<T, n>(values.v, first));
}

}  // namespace kvlab::cuda
