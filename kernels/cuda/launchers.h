// What host code may call of the CUDA side. Includes no CUDA header, so that any compiler reads it.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/views.h"

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t

namespace kvlab::cuda {

/// out[:, j] = silu(gate_up[:, j]) * gate_up[:, width + j]. Device pointers: gate_up [n_rows, 2 * width],
/// out [n_rows, width], apart. Returns at once; the work is done in the order of `stream` (null: the default one).
/// Throws std::runtime_error when the launch is refused.
void launch_silu_multiply_elementwise(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out,
                                      CUstream_st* stream);

/// y = x / sqrt(mean(x^2) + eps) * weight, row by row. x [n_rows, width], x_stride apart; weight [width]; y [n_rows,
/// width], y_stride apart, f32 (may be x, at its stride) or rounded to bf16.
void launch_rms_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                     const float* weight, float eps, float* y, std::int64_t y_stride, CUstream_st* stream);
void launch_rms_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                     const float* weight, float eps, Bf16* y, std::int64_t y_stride, CUstream_st* stream);

/// y = (x - mean) / sqrt(var + eps) * weight + bias, row by row, population variance. Shapes as for launch_rms_norm;
/// bias [width].
void launch_layer_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                       const float* weight, const float* bias, float eps, float* y, std::int64_t y_stride,
                       CUstream_st* stream);
void launch_layer_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                       const float* weight, const float* bias, float eps, Bf16* y, std::int64_t y_stride,
                       CUstream_st* stream);

/// A step's projections on their way to attention. All are device pointers, those inside `kv` as well.
struct RopeAppendArgs {
  const float* qkv = nullptr;  // [n_rows, (n_heads + 2 n_kv_heads) * head_dim]: Q, K, V; rows qkv_stride apart
  std::int64_t qkv_stride = 0;
  std::int64_t n_rows = 0;
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;                // even
  const std::int32_t* positions = nullptr;  // [n_rows]
  const std::int32_t* seqs = nullptr;       // [n_rows]: whose row it is, as an index into the view's tables
  const float* cos_sin = nullptr;           // [n_positions, head_dim]: cosines, then sines; null: no rotation
  std::int64_t q_out_stride = 0;
  KvView kv;  // regions start at multiples of slot_stride
};

/// Rotates pairs (i, i + head_dim / 2) of every head of every row in place. x [n_rows, n_heads * head_dim], x_stride
/// apart; positions [n_rows]; cos_sin as in RopeAppendArgs. Throws InputError for an odd head_dim.
void launch_rope(float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t n_heads, std::int64_t head_dim,
                 const std::int32_t* positions, const float* cos_sin, CUstream_st* stream);

/// A step's K and V rows on their way to the cache. All are device pointers, those inside `kv` as well.
struct AppendRows {
  const float* k = nullptr;  // [n_rows, n_kv_heads * head_dim], rows stride apart
  const float* v = nullptr;  // the same; null: only the K side is written
  std::int64_t stride = 0;
  const SequenceSpan* seqs = nullptr;  // [n_seqs]
  std::int64_t n_seqs = 0;
  std::int64_t max_queries = 0;  // the largest n_queries of a sequence
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  KvView kv;
};

/// Row first_row + i of a sequence goes to position kv_len - n_queries + i, rounded to the view's dtype. Throws
/// InputError for more sequences or heads than a grid has rows.
void launch_append(const AppendRows& args, CUstream_st* stream);

/// Collects the rows of one sequence from wherever the view keeps them: out [n_kv_heads, kv_len, head_dim] of the
/// view's dtype, dense. `kv` has device pointers; `rows` is its k or its v.
void launch_collect_kv(const KvView& kv, const void* rows, std::int64_t seq, std::int64_t n_kv_heads,
                       std::int64_t kv_len, std::int64_t head_dim, void* out, CUstream_st* stream);

/// x = gelu(x) in place, the tanh form of Operations::gelu.
void launch_gelu(float* x, std::int64_t n_values, CUstream_st* stream);

/// out[i, :] = x[rows[i], :] (rows null: x[i, :]). x rows x_stride apart; rows [n_rows]; out [n_rows, width],
/// out_stride apart, f32 or rounded to bf16.
void launch_copy_rows(const float* x, std::int64_t x_stride, const std::int64_t* rows, std::int64_t n_rows,
                      std::int64_t width, float* out, std::int64_t out_stride, CUstream_st* stream);
void launch_copy_rows(const float* x, std::int64_t x_stride, const std::int64_t* rows, std::int64_t n_rows,
                      std::int64_t width, Bf16* out, std::int64_t out_stride, CUstream_st* stream);

/// Rotates Q and K as Operations::rope does, writes Q to q_out [n_rows, n_heads * head_dim], f32 (may be qkv itself, at
/// its stride) or rounded to bf16, and K and V to their slots, rounded to the view's dtype. Throws InputError for an
/// odd head_dim.
void launch_rope_append(const RopeAppendArgs& args, float* q_out, CUstream_st* stream);
void launch_rope_append(const RopeAppendArgs& args, Bf16* q_out, CUstream_st* stream);

/// Scores of one sequence, which naive attention keeps in memory. Rows are whole: stride elements each, the last too;
/// what lies between kv_len and the stride may be overwritten.
struct MaskedSoftmaxArgs {
  const float* scores = nullptr;  // [n_heads, n_queries, kv_len], rows stride apart
  std::int64_t stride = 0;
  std::int64_t n_heads = 0;
  std::int64_t n_queries = 0;
  std::int64_t kv_len = 0;
  std::int64_t window = 0;  // 0: none; as in AttentionArgs
  float scale = 1.0F;       // of the scores, above 0
  std::int64_t weights_stride = 0;
};

/// weights = softmax(scale * scores) over the keys that each query sees (SequenceSpan), 0 for the others, so that the
/// product with V may run over all kv_len; a query that sees no key gets zeros. f32 (may be scores, at its stride) or
/// rounded to bf16. Throws InputError for a stride below kv_len.
void launch_masked_softmax(const MaskedSoftmaxArgs& args, float* weights, CUstream_st* stream);
void launch_masked_softmax(const MaskedSoftmaxArgs& args, Bf16* weights, CUstream_st* stream);

/// out[i, :] (+)= table[ids[i], :]. table [n_rows, width], f32 or bf16; ids [n_ids], all below n_rows;
/// a negative one gives NaN; out [n_ids, width].
void launch_embed(const float* table, std::int64_t width, const std::int32_t* ids, std::int64_t n_ids, float* out,
                  bool accumulate, CUstream_st* stream);
void launch_embed(const Bf16* table, std::int64_t width, const std::int32_t* ids, std::int64_t n_ids, float* out,
                  bool accumulate, CUstream_st* stream);

/// ids[r] = the first column of the largest value of row r among n_choices, or kNoChoice (kernels/sampling.h). logits
/// [n_rows, n_choices], stride apart.
void launch_argmax(const float* logits, std::int64_t stride, std::int64_t n_rows, std::int32_t n_choices,
                   std::int32_t* ids, CUstream_st* stream);

}  // namespace kvlab::cuda
