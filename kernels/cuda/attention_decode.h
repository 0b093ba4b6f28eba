// Launches decode attention: one query row for each sequence, over K and V in device memory. decode_plan.h says how it
// is cut. Includes no CUDA header.
#pragma once

#include <cstdint>

#include "kernels/cuda/decode_plan.h"
#include "kernels/views.h"

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t

namespace kvlab::cuda {

/// Every pointer, those in `kv` too, is to device memory. 16-byte alignment: q, out, k, v, the workspace, and every
/// stride of theirs and every region offset.
struct DecodeCall {
  DecodeShape shape;
  DecodePlan plan;
  const float* q = nullptr;  // [n_seqs, n_heads * head_dim], rows q_stride apart
  std::int64_t q_stride = 0;
  float* out = nullptr;  // [n_seqs, n_heads * head_dim], rows out_stride apart
  std::int64_t out_stride = 0;
  KvView kv;
  const std::int32_t* kv_lens = nullptr;  // [n_seqs]: keys of each sequence; its query stands at the last of them
  float* workspace = nullptr;             // [decode_workspace_floats]; null when that is 0
  float scale = 1.0F;
};

/// out = softmax(q k^T * scale) v over the keys that the window lets through; a sequence without keys gives zeros.
/// Returns at once; the work is done in the order of `stream` (null: the default one). Throws InputError when the call
/// cannot be run, std::runtime_error when the launch is refused.
void launch_attention_decode(const DecodeCall& call, CUstream_st* stream);

}  // namespace kvlab::cuda
