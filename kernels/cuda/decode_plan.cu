// Checks the request for a plan of decode attention and launches the kernel that makes it.
#include <string>

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/decode_plan.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/error.h"

namespace kvlab::cuda {

void launch_decode_plan(const DecodeShape& shape, std::int64_t n_workers, const SequenceSpan* seqs, void* plan,
                        CUstream_st* stream) {
  const DecodeKernel kernel = decode_kernel(shape);
  if (n_workers < 1 || n_workers > kMaxDecodeWorkers) {
    throw InputError("decode attention on CUDA: " + std::to_string(n_workers) + " workers; it takes 1 to " +
                     std::to_string(kMaxDecodeWorkers) + ", see decode_workers");
  }
  if (!is_aligned_to_16(plan)) throw InputError("decode attention on CUDA: the plan is not aligned to 16 bytes");
  const DecodePlanParams params{seqs,
                                static_cast<std::int32_t>(shape.n_seqs),
                                static_cast<std::int32_t>(shape.window),
                                kernel.n_rows,
                                kernel.tile_keys,
                                static_cast<std::int32_t>(n_workers)};
  launch("decode_plan", decode_plan_kernel, {1, kDecodePlanBlock, 1, 1, sizeof(DecodePlanStorage), true}, stream,
         params, decode_plan_view(plan, shape.n_seqs));
}

}  // namespace kvlab::cuda
