// Launches rotation and append, and chooses the width of its accesses.
#include <string>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/rope_append.cuh"
#include "kernels/error.h"

namespace kvlab::cuda {

namespace {

constexpr std::int64_t kMaxBlocksY = 65535;

void check(const RopeAppendArgs& args, std::int64_t threads_per_row) {
  if (args.head_dim % 2 != 0 || args.head_dim <= 0) {
    throw InputError("rope_append: head_dim is " + std::to_string(args.head_dim) + "; rotation needs an even one");
  }
  if (threads_per_row > kMaxBlocksY * kRopeAppendBlock) {
    throw InputError("rope_append: a row has " + std::to_string(args.n_heads) + " + 2 x " +
                     std::to_string(args.n_kv_heads) + " heads of " + std::to_string(args.head_dim) +
                     ", more than a launch has threads for");
  }
}

template <typename QOut>
bool is_wide(const RopeAppendArgs& args, const QOut* q_out) {
  const KvView& kv = args.kv;
  const bool multiples = args.head_dim % 8 == 0 && args.qkv_stride % 4 == 0 && args.q_out_stride % 4 == 0 &&
                         kv.page_stride % 4 == 0 && kv.head_stride % 4 == 0 && kv.slot_stride % 4 == 0;
  return multiples && is_aligned_to_16(args.qkv) && is_aligned_to_16(args.cos_sin) && is_aligned_to_16(q_out) &&
         is_aligned_to_16(kv.k) && is_aligned_to_16(kv.v);
}

template <typename QOut, typename Kv, int n>
void launch_with(const RopeAppendArgs& args, QOut* q_out, CUstream_st* stream) {
  const std::int64_t threads_per_row = (args.n_heads + 2 * args.n_kv_heads) * args.head_dim / (2 * n);
  check(args, threads_per_row);
  if (args.n_rows * threads_per_row == 0) return;  // a launch of no blocks is an error
  const LaunchShape shape{
      args.n_rows, kRopeAppendBlock, (threads_per_row + kRopeAppendBlock - 1) / kRopeAppendBlock, 1, 0, true};
  const QkvShape qkv{static_cast<int>(args.n_heads), static_cast<int>(args.n_kv_heads),
                     static_cast<int>(args.head_dim)};
  launch("rope_append", rope_append_kernel<QOut, Kv, n>, shape, stream, args.qkv, args.qkv_stride, qkv, args.positions,
         args.seqs, args.cos_sin, q_out, args.q_out_stride, device_kv_view<Kv>(args.kv));
}

template <typename QOut>
void launch_for(const RopeAppendArgs& args, QOut* q_out, CUstream_st* stream) {
  const bool wide = is_wide(args, q_out);
  if (args.kv.dtype == DType::f32) {
    wide ? launch_with<QOut, float, 4>(args, q_out, stream) : launch_with<QOut, float, 1>(args, q_out, stream);
  } else {
    wide ? launch_with<QOut, Bf16, 4>(args, q_out, stream) : launch_with<QOut, Bf16, 1>(args, q_out, stream);
  }
}

}  // namespace

void launch_rope_append(const RopeAppendArgs& args, float* q_out, CUstream_st* stream) {
  launch_for(args, q_out, stream);
}

void launch_rope_append(const RopeAppendArgs& args, Bf16* q_out, CUstream_st* stream) {
  launch_for(args, q_out, stream);
}

}  // namespace kvlab::cuda
