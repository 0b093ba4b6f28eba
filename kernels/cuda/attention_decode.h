// Launches decode attention: one query row for each sequence, over K and V in device memory. A plan is made on the
// device once a step and serves all layers; decode_plan.h says how it cuts the work. Includes no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/decode_plan.h"
#include "kernels/views.h"

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t

namespace kvlab::cuda {

// Grids depend on the shape and on n_workers, never on lengths: a recorded step serves all of them.

/// Blocks of the shape's kernel that an SM holds at once, for decode_workers. Throws InputError when no kernel can run
/// the shape, std::runtime_error when the device cannot be asked.
std::int64_t decode_blocks_per_multiprocessor(const DecodeShape& shape);

/// Writes the step's plan: `plan`, decode_plan_bytes(shape, n_workers), 16-byte aligned, from seqs [n_seqs], n_queries
/// 1 each, both in device memory.
void launch_decode_plan(const DecodeShape& shape, std::int64_t n_workers, const SequenceSpan* seqs, void* plan,
                        CUstream_st* stream);

/// Every pointer, those in `kv` too, is to device memory. 16-byte alignment: q, out, k, v, plan, workspace, and every
/// stride of theirs and every region offset.
struct DecodeCall {
  DecodeShape shape;
  std::int64_t n_workers = 0;  // of the plan
  const void* plan = nullptr;  // of launch_decode_plan, for the same shape
  const float* q = nullptr;    // [n_rows, n_heads * head_dim], rows q_stride apart; a sequence's is its first_row
  std::int64_t q_stride = 0;
  float* out = nullptr;  // [n_rows, n_heads * head_dim], rows out_stride apart
  std::int64_t out_stride = 0;
  KvView kv;
  float* workspace = nullptr;  // decode_workspace_bytes(shape, n_workers)
  float scale = 1.0F;
};

/// out = softmax(q k^T * scale) v over the keys that the window lets through; a sequence without keys gives zeros. On
/// tensor cores (decode_kernel) q and the weights of the softmax are rounded to bf16.
/// Returns at once; the work is done in the order of `stream` (null: the default one). Throws InputError when the call
/// cannot be run, std::runtime_error when the launch is refused.
void launch_attention_decode(const DecodeCall& call, CUstream_st* stream);

}  // namespace kvlab::cuda
