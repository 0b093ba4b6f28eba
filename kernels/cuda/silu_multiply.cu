// Launches the SwiGLU gate.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/silu_multiply.cuh"

namespace kvlab::cuda {

namespace {
constexpr std::int64_t kMaxBlocks = 4096;  // fills every current device several times over; the rest is strided
}

void launch_silu_multiply_elementwise(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out,
                                      CUstream_st* stream) {
  if (n_rows * width == 0) return;  // a launch of no blocks is an error
  LaunchShape shape = shape_for(n_rows * width, kSiluMultiplyBlock, kMaxBlocks);
  shape.overlaps_previous = true;
  launch("silu_multiply_elementwise_kernel", silu_multiply_elementwise_kernel, shape, stream, gate_up, n_rows, width,
         out);
}

}  // namespace kvlab::cuda
