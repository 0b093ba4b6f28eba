// The body of RoPE in place, for steps whose Q, K and V do not go to the cache in one piece (rope_append.cuh does
// that).
#pragma once

#include <cstdint>

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

constexpr int kRopeBlock = 128;

/// Pairs (i, i + head_dim / 2) of every head of row r are rotated by the row positions[r] of cos_sin.
/// Grid: n_rows x ceil(n_heads * head_dim / (2 n * kRopeBlock)) blocks; block: kRopeBlock threads; no shared memory. A
/// thread takes n neighbours of a head's first half and their partners of the second (n = 4: 16-byte accesses; then
/// head_dim is a multiple of 8, x_stride of 4, and addresses are aligned). Reads and writes x once, cos_sin once a head
/// (from L1 after the first).
template <int n>
KVLAB_KERNEL void rope_kernel(Global<float> x,  // [n_rows, n_heads * head_dim], x_stride apart
                              std::int64_t x_stride, int n_heads, int head_dim,
                              Global<const std::int32_t> positions,  // [n_rows]
                              Global<const float> cos_sin) {         // [n_positions, head_dim]
  using Values = Vector<float, n>;
  const int half = head_dim / 2;
  const int threads_per_head = half / n;
  const int item = block_y() * kRopeBlock + thread_x();
  const int head = item / threads_per_head;
  const int at = (item - head * threads_per_head) * n;
  const bool inside = head < n_heads;
  const Global<float> to = x + (block_x() * x_stride + std::int64_t{head} * head_dim + at);
  wait_for_previous_launch();
  const std::int64_t pos = load_global_constant(positions + block_x());
  const Global<const float> angles = cos_sin + (pos * head_dim + at);
  const Values first = load_global_if(inside, to.template as<Values>(), Values{});
  const Values second = load_global_if(inside, (to + half).template as<Values>(), Values{});
  const Values cosines = load_global_constant_if(inside, angles.template as<Values>(), Values{});
  const Values sines = load_global_constant_if(inside, (angles + half).template as<Values>(), Values{});
  Values rotated[2];
  for (int i = 0; i < n; ++i) {
    rotated[0][i] = first[i] * cosines[i] - second[i] * sines[i];
    rotated[1][i] = second[i] * cosines[i] + first[i] * sines[i];
  }
  store_global_if(inside, to.template as<Values>(), rotated[0]);
  store_global_if(inside, (to + half).template as<Values>(), rotated[1]);
}

}  // namespace kvlab::cuda
