// Launches RMSNorm.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/rms_norm.cuh"

namespace kvlab::cuda {

namespace {

template <typename Out>
void launch_for(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width, const float* weight,
                float eps, Out* y, std::int64_t y_stride, CUstream_st* stream) {
  if (n_rows * width == 0) return;  // a launch of no blocks is an error
  const LaunchShape shape{n_rows, kRmsNormBlock, 1, 1, sizeof(RmsNormStorage), true};
  const bool wide = width % 4 == 0 && x_stride % 4 == 0 && y_stride % 4 == 0 && is_aligned_to_16(x) &&
                    is_aligned_to_16(weight) && is_aligned_to_16(y);
  launch("rms_norm", wide ? rms_norm_kernel<Out, 4> : rms_norm_kernel<Out, 1>, shape, stream, x, x_stride,
         static_cast<int>(width), weight, eps, y, y_stride);
}

}  // namespace

void launch_rms_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                     const float* weight, float eps, float* y, std::int64_t y_stride, CUstream_st* stream) {
  launch_for(x, x_stride, n_rows, width, weight, eps, y, y_stride, stream);
}

void launch_rms_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                     const float* weight, float eps, Bf16* y, std::int64_t y_stride, CUstream_st* stream) {
  launch_for(x, x_stride, n_rows, width, weight, eps, y, y_stride, stream);
}

}  // namespace kvlab::cuda
