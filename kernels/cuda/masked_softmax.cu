// Launches naive attention's softmax.
#include <string>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/masked_softmax.cuh"
#include "kernels/error.h"

namespace kvlab::cuda {

namespace {

void check(const MaskedSoftmaxArgs& args) {
  if (!(args.scale > 0.0F)) {
    throw InputError("masked_softmax: scale is " + std::to_string(args.scale) + "; it must be above 0");
  }
  if (args.stride < args.kv_len || args.weights_stride < args.kv_len) {
    throw InputError("masked_softmax: strides are " + std::to_string(args.stride) + " and " +
                     std::to_string(args.weights_stride) + "; rows of " + std::to_string(args.kv_len) +
                     " need at least that");
  }
}

template <typename Out>
void launch_for(const MaskedSoftmaxArgs& args, Out* weights, CUstream_st* stream) {
  check(args);
  const std::int64_t n_rows = args.n_heads * args.n_queries;
  if (n_rows * args.kv_len == 0) return;  // a launch of no blocks is an error
  const LaunchShape shape{n_rows, kMaskedSoftmaxBlock, 1, 1, sizeof(MaskedSoftmaxStorage), true};
  const ScoreMask mask{static_cast<int>(args.n_queries), static_cast<int>(args.kv_len), static_cast<int>(args.window)};
  const bool wide = args.stride % 4 == 0 && args.weights_stride % 4 == 0 && is_aligned_to_16(args.scores) &&
                    is_aligned_to_16(weights);
  launch("masked_softmax", wide ? masked_softmax_kernel<Out, 4> : masked_softmax_kernel<Out, 1>, shape, stream,
         args.scores, args.stride, mask, args.scale, weights, args.weights_stride);
}

}  // namespace

void launch_masked_softmax(const MaskedSoftmaxArgs& args, float* weights, CUstream_st* stream) {
  launch_for(args, weights, stream);
}

void launch_masked_softmax(const MaskedSoftmaxArgs& args, Bf16* weights, CUstream_st* stream) {
  launch_for(args, weights, stream);
}

}  // namespace kvlab::cuda
