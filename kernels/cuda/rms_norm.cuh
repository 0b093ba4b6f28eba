// The body of RMSNorm: a block takes a row.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

constexpr int kRmsNormBlock = 256;

struct RmsNormStorage {
  SharedArray<float, kRmsNormBlock / kWarpSize> partials;
};

/// y[r, :] = x[r, :] / sqrt(mean(x[r, :]^2) + eps) * weight, rounded to Out (float or Bf16).
/// Grid: n_rows blocks; block: kRmsNormBlock threads; shared: RmsNormStorage.
/// Thread i takes the accesses i, i + 256, … of `n` neighbouring values (n = 4: 16 bytes; then width, strides and both
/// addresses are multiples of that). Reads x twice, the second time from L2, weight once, writes y once.
/// In place, at one stride, is allowed when Out is float: a thread writes only what it alone has read.
template <typename Out, int n>
KVLAB_KERNEL void rms_norm_kernel(Global<const float> x,  // [n_rows, width], x_stride apart
                                  std::int64_t x_stride, int width,
                                  Global<const float> weight,  // [width]
                                  float eps, Global<Out> y,    // [n_rows, width], y_stride apart
                                  std::int64_t y_stride) {
  auto& shared = shared_storage<RmsNormStorage>();
  using In = Vector<float, n>;
  using Result = Vector<Out, n>;
  const std::int64_t row = block_x();
  const Global<const float> from = x + row * x_stride;
  const Global<Out> to = y + row * y_stride;
  const int n_steps = (width + kRmsNormBlock * n - 1) / (kRmsNormBlock * n);
  wait_for_previous_launch();
  float squares = 0.0F;
  for (int step = 0; step < n_steps; ++step) {
    const int at = (step * kRmsNormBlock + thread_x()) * n;
    const In values = load_global_if(at < width, (from + at).template as<In>(), In{});
    for (int i = 0; i < n; ++i) squares += values[i] * values[i];
  }
  const float mean = block_sum(squares, shared.partials) / static_cast<float>(width);
  const float scale = 1.0F / std::sqrt(mean + eps);
  for (int step = 0; step < n_steps; ++step) {
    const int at = (step * kRmsNormBlock + thread_x()) * n;
    const bool inside = at < width;
    const In values = load_global_if(inside, (from + at).template as<In>(), In{});
    const In factors = load_global_constant_if(inside, (weight + at).template as<In>(), In{});
    Result result;
    for (int i = 0; i < n; ++i) result[i] = rounded_to<Out>(values[i] * scale * factors[i]);
    store_global_if(inside, (to + at).template as<Result>(), result);
  }
}

}  // namespace kvlab::cuda
