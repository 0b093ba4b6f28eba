// Naive attention: for each sequence the scores of all heads by matrix products, a masked softmax over whole rows, and
// the products with V. Scores, weights and, for pages, K and V in one piece stand in memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/backend/device_context.h"
#include "kernels/cuda/backend/device_graph.h"
#include "kernels/views.h"

namespace kvlab::cuda {

/// What one call after the other uses.
struct NaiveScratch {
  explicit NaiveScratch(DeviceContext& context)
      : scores(context, "attention scores"),
        weights(context, "attention weights"),
        q(context, "queries in bf16"),
        k(context, "keys in one piece"),
        v(context, "values in one piece") {}

  ScratchMemory scores;   // [n_heads, n_queries, stride] f32, of one sequence
  ScratchMemory weights;  // the same in bf16, for a bf16 cache
  ScratchMemory q;        // [n_queries, n_heads * head_dim] bf16, the same
  ScratchMemory k;        // [n_kv_heads, kv_len, head_dim] of the cache's type, for pages
  ScratchMemory v;        // the same
};

/// Bytes of the scratch that such a call needs.
std::size_t naive_scratch_bytes(const AttentionArgs& args);

/// Its products follow the lengths of the sequences, so that a recorded call is good for one set of lengths.
class NaiveAttention final : public Work {
 public:
  /// `args` has device pointers but for its spans; `host` is the same view on the host.
  NaiveAttention(DeviceContext& context, NaiveScratch& scratch, const AttentionArgs& args, const KvView& host)
      : context_(context), scratch_(scratch), args_(args), host_(host) {}

  void prepare() override;
  void launch(CUstream_st* stream) override;

 private:
  /// K and V of one sequence, one row after the other for every head.
  struct Rows {
    const void* k;
    const void* v;
    std::int64_t head_stride;
    std::int64_t slot_stride;
  };

  Rows rows_of(std::size_t seq, CUstream_st* stream) const;
  void run_sequence(std::size_t seq, CUstream_st* stream) const;
  void multiply_scores(const SequenceSpan& span, const Rows& rows, CUstream_st* stream) const;
  void multiply_values(const SequenceSpan& span, const Rows& rows, CUstream_st* stream) const;

  DeviceContext& context_;
  NaiveScratch& scratch_;
  AttentionArgs args_;
  KvView host_;
};

}  // namespace kvlab::cuda
