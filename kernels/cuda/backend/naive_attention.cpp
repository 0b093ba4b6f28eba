#include "kernels/cuda/backend/naive_attention.h"

#include <algorithm>
#include <vector>

#include "kernels/cuda/launchers.h"

namespace kvlab::cuda {
namespace {

/// Elements from one row of scores to the next: rows start at 16 bytes, in bf16 too.
std::int64_t score_stride(const SequenceSpan& span) { return (span.kv_len + 7) / 8 * 8; }

std::int64_t score_count(const AttentionArgs& args, const SequenceSpan& span) {
  return args.n_heads * span.n_queries * score_stride(span);
}

struct Bytes {
  std::size_t scores = 0;
  std::size_t weights = 0;
  std::size_t q = 0;
  std::size_t kv = 0;  // of K, and as many of V
};

/// Positions that the cache has room for in one sequence; without a cache those that there are.
std::int64_t room_for(const KvView& view, std::int64_t kv_len) {
  if (view.page_table != nullptr) return view.pages_per_seq * view.page_size;
  return std::max(kv_len, view.head_stride / view.slot_stride);
}

Bytes needed_bytes(const AttentionArgs& args, std::span<const SequenceSpan> seqs) {
  Bytes bytes;
  for (const SequenceSpan& span : seqs) {
    if (span.n_queries == 0) continue;
    const auto n_scores = static_cast<std::size_t>(score_count(args, span));
    bytes.scores = std::max(bytes.scores, n_scores * sizeof(float));
    if (args.kv.dtype == DType::bf16) {
      const auto n_q = static_cast<std::size_t>(span.n_queries * args.n_heads * args.head_dim);
      bytes.weights = std::max(bytes.weights, n_scores * sizeof(Bf16));
      bytes.q = std::max(bytes.q, n_q * sizeof(Bf16));
    }
    if (args.kv.page_table != nullptr) {
      const auto n_kv = static_cast<std::size_t>(span.kv_len * args.n_kv_heads * args.head_dim);
      bytes.kv = std::max(bytes.kv, n_kv * dtype_bytes(args.kv.dtype));
    }
  }
  return bytes;
}

const void* element(const void* base, DType dtype, std::int64_t i) {
  return static_cast<const std::byte*>(base) + i * static_cast<std::int64_t>(dtype_bytes(dtype));
}

}  // namespace

std::size_t naive_scratch_bytes(const AttentionArgs& args) {
  const Bytes bytes = needed_bytes(args, args.seqs);
  return bytes.scores + bytes.weights + bytes.q + 2 * bytes.kv;
}

/// A step of single queries reserves what the last one that fits the cache will need: none of them allocates.
void NaiveAttention::prepare() {
  std::vector<SequenceSpan> seqs(args_.seqs.begin(), args_.seqs.end());
  for (SequenceSpan& span : seqs) {
    if (span.n_queries == 1) span.kv_len = room_for(host_, span.kv_len);
  }
  const Bytes bytes = needed_bytes(args_, seqs);
  scratch_.scores.reserve(bytes.scores);
  scratch_.weights.reserve(bytes.weights);
  scratch_.q.reserve(bytes.q);
  scratch_.k.reserve(bytes.kv);
  scratch_.v.reserve(bytes.kv);
}

void NaiveAttention::launch(CUstream_st* stream) {
  for (std::size_t seq = 0; seq < args_.seqs.size(); ++seq) {
    if (args_.seqs[seq].n_queries > 0) run_sequence(seq, stream);
  }
}

NaiveAttention::Rows NaiveAttention::rows_of(std::size_t seq, CUstream_st* stream) const {
  if (args_.kv.page_table == nullptr) {
    const std::int64_t start = host_.region_offset[seq];
    return {element(args_.kv.k, host_.dtype, start), element(args_.kv.v, host_.dtype, start), host_.head_stride,
            host_.slot_stride};
  }
  const std::int64_t kv_len = args_.seqs[seq].kv_len;
  const auto index = static_cast<std::int64_t>(seq);
  void* k = scratch_.k.as<void>();
  void* v = scratch_.v.as<void>();
  launch_collect_kv(args_.kv, args_.kv.k, index, args_.n_kv_heads, kv_len, args_.head_dim, k, stream);
  launch_collect_kv(args_.kv, args_.kv.v, index, args_.n_kv_heads, kv_len, args_.head_dim, v, stream);
  return {k, v, kv_len * args_.head_dim, args_.head_dim};
}

void NaiveAttention::run_sequence(std::size_t seq, CUstream_st* stream) const {
  const SequenceSpan& span = args_.seqs[seq];
  const Rows rows = rows_of(seq, stream);
  multiply_scores(span, rows, stream);
  const std::int64_t stride = score_stride(span);
  const MaskedSoftmaxArgs softmax{scratch_.scores.as<float>(),
                                  stride,
                                  args_.n_heads,
                                  span.n_queries,
                                  span.kv_len,
                                  args_.window,
                                  args_.scale,
                                  stride};
  if (host_.dtype == DType::f32) {
    launch_masked_softmax(softmax, scratch_.scores.as<float>(), stream);
  } else {
    launch_masked_softmax(softmax, scratch_.weights.as<Bf16>(), stream);
  }
  multiply_values(span, rows, stream);
}

/// Scores = Q K^T. One query of each head: the heads of a group are the rows of one product with their K. More: a
/// product for each place in the group, whose batches are the KV heads.
void NaiveAttention::multiply_scores(const SequenceSpan& span, const Rows& rows, CUstream_st* stream) const {
  const std::int64_t group = args_.n_heads / args_.n_kv_heads;
  const std::int64_t stride = score_stride(span);
  const float* q = args_.q + span.first_row * args_.q_stride;
  const void* x = q;
  std::int64_t x_stride = args_.q_stride;
  if (host_.dtype == DType::bf16) {
    x_stride = args_.n_heads * args_.head_dim;
    launch_copy_rows(q, args_.q_stride, nullptr, span.n_queries, x_stride, scratch_.q.as<Bf16>(), x_stride, stream);
    x = scratch_.q.as<Bf16>();
  }
  const bool one_query = span.n_queries == 1;
  MatrixProduct product = dense_product(one_query ? group : span.n_queries, args_.head_dim, span.kv_len, host_.dtype);
  product.x_stride = one_query ? args_.head_dim : x_stride;
  product.w_stride = rows.slot_stride;
  product.y_stride = stride;
  product.n_batches = args_.n_kv_heads;
  product.x_batch_stride = group * args_.head_dim;
  product.w_batch_stride = rows.head_stride;
  product.y_batch_stride = group * span.n_queries * stride;
  const MatmulCall call = column_major_call(product);
  for (std::int64_t i = 0; i < (one_query ? 1 : group); ++i) {
    context_.matmuls().multiply(call,
                                {rows.k, element(x, host_.dtype, i * args_.head_dim), nullptr,
                                 scratch_.scores.as<float>() + i * span.n_queries * stride},
                                stream);
  }
}

/// Out = weights V, cut in the same way.
void NaiveAttention::multiply_values(const SequenceSpan& span, const Rows& rows, CUstream_st* stream) const {
  const std::int64_t group = args_.n_heads / args_.n_kv_heads;
  const std::int64_t stride = score_stride(span);
  const void* x = host_.dtype == DType::f32 ? scratch_.scores.as<void>() : scratch_.weights.as<void>();
  const bool one_query = span.n_queries == 1;
  MatrixProduct product = dense_product(one_query ? group : span.n_queries, span.kv_len, args_.head_dim, host_.dtype);
  product.weight_order = WeightOrder::in_by_out;
  product.x_stride = stride;
  product.w_stride = rows.slot_stride;
  product.y_stride = one_query ? args_.head_dim : args_.out_stride;
  product.n_batches = args_.n_kv_heads;
  product.x_batch_stride = group * span.n_queries * stride;
  product.w_batch_stride = rows.head_stride;
  product.y_batch_stride = group * args_.head_dim;
  const MatmulCall call = column_major_call(product);
  float* out = args_.out + span.first_row * args_.out_stride;
  for (std::int64_t i = 0; i < (one_query ? 1 : group); ++i) {
    context_.matmuls().multiply(
        call, {rows.v, element(x, host_.dtype, i * span.n_queries * stride), nullptr, out + i * args_.head_dim},
        stream);
  }
}

}  // namespace kvlab::cuda
