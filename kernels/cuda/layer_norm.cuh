// The body of LayerNorm: a block takes a row.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

constexpr int kLayerNormBlock = 256;

struct LayerNormStorage {
  SharedArray<float, kLayerNormBlock / kWarpSize> sums;
  SharedArray<float, kLayerNormBlock / kWarpSize> squares;
};

/// y[r, :] = (x[r, :] - mean) / sqrt(var + eps) * weight + bias, rounded to Out (float or Bf16); population variance.
/// Grid: n_rows blocks; block: kLayerNormBlock threads; shared: LayerNormStorage.
/// Thread i takes the accesses i, i + 256, … of `n` neighbouring values (n = 4: 16 bytes; then width, strides and all
/// addresses are multiples of that). Reads x three times, twice from L2: the variance is that of centred values, since
/// the mean of squares less the square of the mean cancels. Reads weight and bias once, writes y once.
/// In place, at one stride, is allowed when Out is float: a thread writes only what it alone has read.
template <typename Out, int n>
KVLAB_KERNEL void layer_norm_kernel(Global<const float> x,  // [n_rows, width], x_stride apart
                                    std::int64_t x_stride, int width,
                                    Global<const float> weight,  // [width]
                                    Global<const float> bias,    // [width]
                                    float eps, Global<Out> y,    // [n_rows, width], y_stride apart
                                    std::int64_t y_stride) {
  auto& shared = shared_storage<LayerNormStorage>();
  using In = Vector<float, n>;
  using Result = Vector<Out, n>;
  const std::int64_t row = block_x();
  const Global<const float> from = x + row * x_stride;
  const Global<Out> to = y + row * y_stride;
  const int n_steps = (width + kLayerNormBlock * n - 1) / (kLayerNormBlock * n);
  wait_for_previous_launch();
  float sum = 0.0F;
  for (int step = 0; step < n_steps; ++step) {
    const int at = (step * kLayerNormBlock + thread_x()) * n;
    const In values = load_global_if(at < width, (from + at).template as<In>(), In{});
    for (int i = 0; i < n; ++i) sum += values[i];
  }
  const float mean = block_sum(sum, shared.sums) / static_cast<float>(width);
  float squares = 0.0F;
  for (int step = 0; step < n_steps; ++step) {
    const int at = (step * kLayerNormBlock + thread_x()) * n;
    const bool inside = at < width;
    const In values = load_global_if(inside, (from + at).template as<In>(), In{});
    for (int i = 0; i < n; ++i) squares += inside ? (values[i] - mean) * (values[i] - mean) : 0.0F;
  }
  const float variance = block_sum(squares, shared.squares) / static_cast<float>(width);
  const float scale = 1.0F / std::sqrt(variance + eps);
  for (int step = 0; step < n_steps; ++step) {
    const int at = (step * kLayerNormBlock + thread_x()) * n;
    const bool inside = at < width;
    const In values = load_global_if(inside, (from + at).template as<In>(), In{});
    const In factors = load_global_constant_if(inside, (weight + at).template as<In>(), In{});
    const In shifts = load_global_constant_if(inside, (bias + at).template as<In>(), In{});
    Result result;
    for (int i = 0; i < n; ++i) result[i] = rounded_to<Out>((values[i] - mean) * scale * factors[i] + shifts[i]);
    store_global_if(inside, (to + at).template as<Result>(), result);
  }
}

}  // namespace kvlab::cuda
