// The body that copies rows: those picked by number, or all of them, as they are or rounded to bf16.
#pragma once

#include <cstdint>

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

constexpr int kCopyRowsBlock = 128;

/// out[i, :] = x[rows[i], :], with rows null x[i, :], rounded to Out (float or Bf16).
/// Grid: n_rows blocks; block: kCopyRowsBlock threads; no shared memory. A thread takes n neighbours at a time (n = 4:
/// 16-byte loads; then width and strides are multiples of 4 and addresses aligned). Each row is read and written once.
template <typename Out, int n>
KVLAB_KERNEL void copy_rows_kernel(Global<const float> x,  // rows of width, x_stride apart
                                   std::int64_t x_stride,
                                   Global<const std::int64_t> rows,  // [n_rows], or null
                                   std::int64_t width,
                                   Global<Out> out,  // [n_rows, width], out_stride apart
                                   std::int64_t out_stride) {
  using Values = Vector<float, n>;
  using Result = Vector<Out, n>;
  wait_for_previous_launch();
  const std::int64_t row = rows ? load_global_constant(rows + block_x()) : std::int64_t{block_x()};
  const Global<const float> from = x + row * x_stride;
  const Global<Out> to = out + block_x() * out_stride;
  for (std::int64_t first = 0; first < width; first += kCopyRowsBlock * n) {
    const std::int64_t at = first + thread_x() * n;
    const bool inside = at < width;
    const Values values = load_global_if(inside, (from + at).template as<Values>(), Values{});
    Result result;
    for (int i = 0; i < n; ++i) result[i] = rounded_to<Out>(values[i]);
    store_global_if(inside, (to + at).template as<Result>(), result);
  }
}

}  // namespace kvlab::cuda
