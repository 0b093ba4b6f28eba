// Launches LayerNorm.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/layer_norm.cuh"

namespace kvlab::cuda {

namespace {

template <typename Out>
void launch_for(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width, const float* weight,
                const float* bias, float eps, Out* y, std::int64_t y_stride, CUstream_st* stream) {
  if (n_rows * width == 0) return;  // a launch of no blocks is an error
  const LaunchShape shape{n_rows, kLayerNormBlock, 1, 1, sizeof(LayerNormStorage), true};
  const bool wide = width % 4 == 0 && x_stride % 4 == 0 && y_stride % 4 == 0 && is_aligned_to_16(x) &&
                    is_aligned_to_16(weight) && is_aligned_to_16(bias) && is_aligned_to_16(y);
  launch("layer_norm", wide ? layer_norm_kernel<Out, 4> : layer_norm_kernel<Out, 1>, shape, stream, x, x_stride,
         static_cast<int>(width), weight, bias, eps, y, y_stride);
}

}  // namespace

void launch_layer_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                       const float* weight, const float* bias, float eps, float* y, std::int64_t y_stride,
                       CUstream_st* stream) {
  launch_for(x, x_stride, n_rows, width, weight, bias, eps, y, y_stride, stream);
}

void launch_layer_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                       const float* weight, const float* bias, float eps, Bf16* y, std::int64_t y_stride,
                       CUstream_st* stream) {
  launch_for(x, x_stride, n_rows, width, weight, bias, eps, y, y_stride, stream);
}

}  // namespace kvlab::cuda
