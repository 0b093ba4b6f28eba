// Launches the greedy choice.
#include "kernels/cuda/argmax.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"

namespace kvlab::cuda {

void launch_argmax(const float* logits, std::int64_t stride, std::int64_t n_rows, std::int32_t n_choices,
                   std::int32_t* ids, CUstream_st* stream) {
  if (n_rows == 0) return;  // a launch of no blocks is an error
  launch("argmax", argmax_kernel, {n_rows, kArgmaxBlock, 1, 1, sizeof(ArgmaxStorage), true}, stream, logits, stride,
         n_choices, ids);
}

}  // namespace kvlab::cuda
