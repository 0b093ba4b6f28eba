// Launches fused prefill attention on tensor cores: any number of query rows for each sequence of a ragged batch, over
// bf16 K and V in device memory. prefill_plan.h says how it is cut. Includes no CUDA header.
#pragma once

#include <cstdint>

#include "kernels/cuda/prefill_plan.h"
#include "kernels/views.h"

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t

namespace kvlab::cuda {

/// Every pointer, those in `kv` too, is to device memory. 16-byte alignment: q, out, k, v, and every stride of theirs
/// and every region offset.
struct PrefillCall {
  std::int64_t n_seqs = 0;
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;  // prefill_instance_dim says which
  std::int64_t window = 0;    // 0: none; otherwise a query sees the last so many keys up to its own
  float scale = 1.0F;         // of the scores, above 0
  const float* q = nullptr;   // [n_rows, n_heads * head_dim], rows q_stride apart; rounded to bf16 on the way in
  std::int64_t q_stride = 0;
  float* out = nullptr;  // [n_rows, n_heads * head_dim], rows out_stride apart
  std::int64_t out_stride = 0;
  KvView kv;                           // bf16
  const SequenceSpan* seqs = nullptr;  // [n_seqs]; first_row indexes q and out
  std::int64_t max_queries = 0;        // no sequence has more queries; those beyond would get no answer
};

/// out = softmax(q k^T * scale, causally masked) v for the rows of `seqs`; a row that sees no key gives zeros. Products
/// are of bf16 numbers (Q and the softmax weights, relative to the largest score so far, are rounded), sums are f32;
/// the sum of the weights is that of the weights before rounding. Returns at once; the work is done in the order of
/// `stream` (null: the default one). Throws InputError when the call cannot be run, std::runtime_error when the launch
/// is refused.
void launch_attention_prefill(const PrefillCall& call, CUstream_st* stream);

}  // namespace kvlab::cuda
