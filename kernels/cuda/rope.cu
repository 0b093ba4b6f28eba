// Launches RoPE in place.
#include <string>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/rope.cuh"
#include "kernels/error.h"

namespace kvlab::cuda {

void launch_rope(float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t n_heads, std::int64_t head_dim,
                 const std::int32_t* positions, const float* cos_sin, CUstream_st* stream) {
  if (head_dim % 2 != 0 || head_dim <= 0) {
    throw InputError("rope: head_dim is " + std::to_string(head_dim) + "; rotation needs an even one");
  }
  if (n_rows * n_heads == 0) return;  // a launch of no blocks is an error
  const bool wide = head_dim % 8 == 0 && x_stride % 4 == 0 && is_aligned_to_16(x) && is_aligned_to_16(cos_sin);
  const std::int64_t threads_per_row = n_heads * head_dim / (wide ? 8 : 2);
  const LaunchShape shape{n_rows, kRopeBlock, (threads_per_row + kRopeBlock - 1) / kRopeBlock, 1, 0, true};
  launch("rope", wide ? rope_kernel<4> : rope_kernel<1>, shape, stream, x, x_stride, static_cast<int>(n_heads),
         static_cast<int>(head_dim), positions, cos_sin);
}

}  // namespace kvlab::cuda
