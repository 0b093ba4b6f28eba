// Launches append.
#include <string>

#include "kernels/cuda/append.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/error.h"

namespace kvlab::cuda {

namespace {

constexpr std::int64_t kMaxBlocksY = 65535;

template <typename Kv>
void launch_for(const AppendRows& args, CUstream_st* stream) {
  const KvView& kv = args.kv;
  const bool wide = args.head_dim % 4 == 0 && args.stride % 4 == 0 && kv.page_stride % 4 == 0 &&
                    kv.head_stride % 4 == 0 && kv.slot_stride % 4 == 0 && is_aligned_to_16(args.k) &&
                    is_aligned_to_16(args.v) && is_aligned_to_16(kv.k) && is_aligned_to_16(kv.v);
  const LaunchShape shape{args.max_queries, kAppendBlock, args.n_seqs, args.v == nullptr ? 1 : 2, 0, true};
  launch("append", wide ? append_kernel<Kv, 4> : append_kernel<Kv, 1>, shape, stream, args.k, args.v, args.stride,
         static_cast<int>(args.n_kv_heads), static_cast<int>(args.head_dim), args.seqs, device_kv_view<Kv>(kv));
}

}  // namespace

void launch_append(const AppendRows& args, CUstream_st* stream) {
  if (args.n_seqs > kMaxBlocksY) {
    throw InputError("append: a batch of " + std::to_string(args.n_seqs) + "; it takes at most " +
                     std::to_string(kMaxBlocksY));
  }
  if (args.n_seqs * args.max_queries == 0) return;  // a launch of no blocks is an error
  if (args.kv.dtype == DType::f32) {
    launch_for<float>(args, stream);
  } else {
    launch_for<Bf16>(args, stream);
  }
}

}  // namespace kvlab::cuda
