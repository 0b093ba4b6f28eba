// The body of the embedding lookup: a block copies a row.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

constexpr int kEmbedBlock = 128;

/// out[r, :] (+)= table[ids[r], :], widened to float; a negative id, which is none, gives NaN. T: float or Bf16.
/// Grid: n_ids blocks; block: kEmbedBlock threads; no shared memory. A thread takes accesses of n neighbouring values
/// (n > 1: width is a multiple of n, and table and out are aligned to the accesses). Each row is read and written once,
/// and read once more where it is added to.
template <typename T, int n>
KVLAB_KERNEL void embed_kernel(Global<const T> table,  // [n_rows, width]
                               std::int64_t width,
                               Global<const std::int32_t> ids,  // [n_ids]
                               Global<float> out,               // [n_ids, width]
                               bool accumulate) {
  using In = Vector<T, n>;
  using Out = Vector<float, n>;
  wait_for_previous_launch();
  const std::int32_t id = load_global(ids + block_x());
  const Global<const T> from = table + (id < 0 ? 0 : id) * width;
  const Global<float> to = out + block_x() * width;
  for (std::int64_t first = 0; first < width; first += kEmbedBlock * n) {
    const std::int64_t at = first + thread_x() * n;
    const bool inside = at < width;
    const In values = load_global_constant_if(inside && id >= 0, (from + at).template as<In>(), In{});
    Out widened = load_global_if(inside && accumulate, (to + at).template as<Out>(), Out{});
    for (int i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, Bf16>) {
        widened[i] += to_float(values[i]);
      } else {
        widened[i] += values[i];
      }
      if (id < 0) widened[i] = float_from_bits(0x7FC00000U);
    }
    store_global_if(inside, (to + at).template as<Out>(), widened);
  }
}

}  // namespace kvlab::cuda
