// Launches GELU.
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"

namespace kvlab::cuda {

namespace {
constexpr std::int64_t kMaxBlocks = 4096;  // fills every current device several times over; the rest is strided
}

void launch_gelu(float* x, std::int64_t n_values, CUstream_st* stream) {
  if (n_values == 0) return;  // a launch of no blocks is an error
  LaunchShape shape = shape_for(n_values, kGeluBlock, kMaxBlocks);
  shape.overlaps_previous = true;
  launch("gelu", gelu_kernel, shape, stream, x, n_values);
}

}  // namespace kvlab::cuda
