// Checks a call of decode attention and launches its kernels.
#include <string>

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/attention_decode_instances.h"
#include "kernels/cuda/attention_decode_merge.cuh"
#include "kernels/cuda/attention_decode_task.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/error.h"

namespace kvlab::cuda {

namespace {

constexpr float kLog2E = 1.44269504F;

void check_alignment(const DecodeCall& call) {
  const KvView& kv = call.kv;
  const auto per_chunk = static_cast<std::int64_t>(16 / dtype_bytes(kv.dtype));
  const bool kv_is_wide = is_aligned_to_16(kv.k) && is_aligned_to_16(kv.v) && kv.page_stride % per_chunk == 0 &&
                          kv.head_stride % per_chunk == 0 && kv.slot_stride % per_chunk == 0;
  const bool rows_are_wide = is_aligned_to_16(call.q) && is_aligned_to_16(call.out) &&
                             is_aligned_to_16(call.workspace) && is_aligned_to_16(call.plan) &&
                             call.q_stride % 4 == 0 && call.out_stride % 4 == 0;
  if (kv_is_wide && rows_are_wide) return;
  throw InputError(std::string("decode attention on CUDA: ") +
                   (kv_is_wide ? "q, out, the plan or the workspace" : "K or V") +
                   " is not aligned to 16 bytes; align the buffer and its strides");
}

void check_call(const DecodeCall& call) {
  check_alignment(call);
  if (call.kv.dtype != call.shape.dtype) {
    throw InputError("decode attention on CUDA: the shape says " + std::string(dtype_name(call.shape.dtype)) +
                     ", the cache " + std::string(dtype_name(call.kv.dtype)) + "; the plan depends on it");
  }
  if (call.n_workers < 1 || call.plan == nullptr || call.workspace == nullptr) {
    throw InputError("decode attention on CUDA: there is no plan or no workspace; launch_decode_plan makes the plan");
  }
}

template <typename T>
DecodeParams<T> params_of(const DecodeCall& call, const DecodeKernel& kernel) {
  const DecodeShape& shape = call.shape;
  DecodeParams<T> params{};
  params.totals = static_cast<const DecodeTotals*>(call.plan);
  params.sequences = (params.totals + 1).template as<const DecodeSequence>();
  params.runs = (params.sequences + shape.n_seqs).template as<const DecodeRun>();
  params.q = call.q;
  params.q_stride = call.q_stride;
  params.out = call.out;
  params.out_stride = call.out_stride;
  params.kv = device_kv_view<const T>(call.kv);
  params.partial_rows = call.workspace;
  const std::int64_t n_parts = 2 * call.n_workers * kernel.heads_per_pass;
  params.partial_sums = (params.partial_rows + n_parts * shape.head_dim).template as<PartSum>();
  params.group = static_cast<std::int32_t>(shape.n_heads / shape.n_kv_heads);
  params.n_passes = kernel.n_passes;
  params.n_rows = kernel.n_rows;
  params.head_dim = static_cast<std::int32_t>(shape.head_dim);
  params.scale = call.scale * kLog2E;
  return params;
}

DecodeInstance<Bf16> bf16_instance(const DecodeKernel& kernel) {
  return kernel.path == DecodePath::tensor_cores ? tensor_cores_instance(kernel) : cuda_cores_instance_bf16(kernel);
}

template <typename T>
void launch_instance(const DecodeInstance<T>& instance, const DecodeKernel& kernel, const DecodeCall& call,
                     CUstream_st* stream) {
  const DecodeParams<T> params = params_of<T>(call, kernel);
  launch("attention_decode", instance.kernel, {call.n_workers, instance.block_size, 1, 1, instance.shared_bytes, true},
         stream, params);
  launch("attention_decode_merge", attention_decode_merge_kernel<T>,
         {call.shape.n_heads, kDecodeMergeBlock, call.shape.n_seqs, 1, 0, true}, stream, params, kernel.heads_per_pass,
         kernel.tile_keys);
}

}  // namespace

std::int64_t decode_blocks_per_multiprocessor(const DecodeShape& shape) {
  const DecodeKernel kernel = decode_kernel(shape);
  const auto blocks_of = [](const auto& instance) {
    return blocks_per_multiprocessor("attention_decode", instance.kernel, instance.block_size, instance.shared_bytes);
  };
  return shape.dtype == DType::f32 ? blocks_of(cuda_cores_instance_f32(kernel)) : blocks_of(bf16_instance(kernel));
}

void launch_attention_decode(const DecodeCall& call, CUstream_st* stream) {
  const DecodeKernel kernel = decode_kernel(call.shape);
  if (call.shape.n_seqs == 0) return;  // a launch of no blocks is an error
  check_call(call);
  if (call.shape.dtype == DType::f32) {
    launch_instance(cuda_cores_instance_f32(kernel), kernel, call, stream);
  } else {
    launch_instance(bf16_instance(kernel), kernel, call, stream);
  }
}

}  // namespace kvlab::cuda
