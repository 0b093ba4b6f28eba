// Checks a call of decode attention and launches its kernels.
#include <string>

#include "kernels/cuda/attention_decode.cuh"
#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/attention_decode_merge.cuh"
#include "kernels/cuda/launch.cuh"

namespace kvlab::cuda {

namespace {

constexpr float kLog2E = 1.44269504F;

bool is_wide(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

void check_alignment(const DecodeCall& call) {
  const KvView& kv = call.kv;
  const auto per_chunk = static_cast<std::int64_t>(16 / dtype_bytes(kv.dtype));
  const bool kv_is_wide = is_wide(kv.k) && is_wide(kv.v) && kv.page_stride % per_chunk == 0 &&
                          kv.head_stride % per_chunk == 0 && kv.slot_stride % per_chunk == 0;
  const bool rows_are_wide = is_wide(call.q) && is_wide(call.out) && is_wide(call.workspace) &&
                             call.q_stride % 4 == 0 && call.out_stride % 4 == 0;
  if (kv_is_wide && rows_are_wide) return;
  throw InputError(std::string("decode attention on CUDA: ") + (kv_is_wide ? "q, out or the workspace" : "K or V") +
                   " is not aligned to 16 bytes; align the buffer and its strides");
}

template <typename T>
DecodeParams<T> params_of(const DecodeCall& call) {
  const DecodeShape& shape = call.shape;
  const std::int64_t n_rows = shape.n_seqs * shape.n_heads * call.plan.n_splits;
  DecodeParams<T> params{};
  params.q = call.q;
  params.q_stride = call.q_stride;
  params.out = call.out;
  params.out_stride = call.out_stride;
  params.kv = device_kv_view<const T>(call.kv);
  params.kv_lens = call.kv_lens;
  params.partial_rows = call.workspace;
  if (call.workspace != nullptr)
    params.partial_sums = (params.partial_rows + n_rows * shape.head_dim).template as<SplitSum>();
  params.n_heads = static_cast<std::int32_t>(shape.n_heads);
  params.group = static_cast<std::int32_t>(shape.n_heads / shape.n_kv_heads);
  params.n_passes = static_cast<std::int32_t>(call.plan.n_passes);
  params.head_dim = static_cast<std::int32_t>(shape.head_dim);
  params.window = static_cast<std::int32_t>(shape.window);
  params.scale = call.scale * kLog2E;
  return params;
}

template <typename T, int dim, int heads>
void launch_instance(const DecodeCall& call, CUstream_st* stream) {
  const DecodePlan& plan = call.plan;
  const LaunchShape shape{plan.n_splits, kDecodeBlock, call.shape.n_kv_heads * plan.n_passes, call.shape.n_seqs,
                          sizeof(DecodeStorage<T, dim, heads>)};
  launch("attention_decode", attention_decode_kernel<T, dim, heads>, shape, stream, params_of<T>(call));
}

template <typename T, int dim>
void launch_heads(const DecodeCall& call, CUstream_st* stream) {
  switch (call.plan.heads_per_pass) {
    case 1:
      return launch_instance<T, dim, 1>(call, stream);
    case 2:
      return launch_instance<T, dim, 2>(call, stream);
    default:
      return launch_instance<T, dim, 4>(call, stream);
  }
}

template <typename T>
void launch_for(const DecodeCall& call, CUstream_st* stream) {
  const DecodePlan& plan = call.plan;
  switch (plan.instance_dim) {
    case 32:
      launch_heads<T, 32>(call, stream);
      break;
    case 64:
      launch_heads<T, 64>(call, stream);
      break;
    case 128:
      launch_heads<T, 128>(call, stream);
      break;
    default:
      launch_heads<T, 256>(call, stream);
  }
  if (plan.n_splits == 1) return;
  launch("attention_decode_merge", attention_decode_merge_kernel<T>,
         {call.shape.n_heads, kDecodeMergeBlock, call.shape.n_seqs}, stream, params_of<T>(call),
         static_cast<std::int32_t>(plan.n_splits), decode_tile_keys(plan.instance_dim, sizeof(T)));
}

}  // namespace

void launch_attention_decode(const DecodeCall& call, CUstream_st* stream) {
  check_decode_shape(call.shape);
  if (call.shape.n_seqs == 0) return;  // a launch of no blocks is an error
  check_alignment(call);
  if (call.kv.dtype == DType::f32) {
    launch_for<float>(call, stream);
  } else {
    launch_for<Bf16>(call, stream);
  }
}

}  // namespace kvlab::cuda
