// The CPU backend's operation table: runs each operation in a parallel region of its own, or records it; keeps what
// kernels reuse between calls.
#pragma once

#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu_graph.h"
#include "kernels/cpu/packed_f32.h"
#include "kernels/operations.h"

namespace kvlab::cpu {

/// One caller at a time. oneDNN takes its number of threads from the calling thread's OpenMP setting, so the
/// constructor and every f32 product set that to `n_threads`; our own parallel regions name their number themselves.
class CpuOperations final : public Operations {
 public:
  /// Throws InputError when n_threads < 1.
  explicit CpuOperations(int n_threads);

  std::unique_ptr<Buffer> allocate(std::size_t bytes) override;
  std::unique_ptr<PackedMatrix> pack_matrix(const HostMatrix& weight, DType storage) override;
  std::unique_ptr<PackedMatrix> pack_table(const HostMatrix& table, DType storage) override;
  void embed(const PackedMatrix& table, std::span<const std::int32_t> ids, float* out, bool accumulate) override;
  void matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows, float* y,
              std::int64_t y_stride, const float* bias, bool accumulate) override;
  void rms_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width, const float* weight,
                float eps, float* y, std::int64_t y_stride) override;
  void layer_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width, const float* weight,
                  const float* bias, float eps, float* y, std::int64_t y_stride) override;
  void rope(float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t n_heads, std::int64_t head_dim,
            const std::int32_t* positions, const float* cos_sin) override;
  void append(const float* k, const float* v, std::int64_t stride, std::span<const SequenceSpan> seqs,
              std::int64_t n_kv_heads, std::int64_t head_dim, const KvView& view) override;
  void fill_kv(const RandomKv& values, std::int64_t n_seqs, std::int64_t n_tokens, std::int64_t n_kv_heads,
               std::int64_t head_dim, const KvView& view) override;
  AttentionWork attention(AttentionKind kind, const AttentionArgs& args) override;
  std::size_t attention_workspace_bytes(AttentionKind kind, const AttentionArgs& args) const override;
  void silu_multiply(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out) override;
  void gelu(float* x, std::int64_t n_values) override;
  void gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> rows, std::int64_t width,
                   float* dst, std::int64_t dst_stride) override;

  void begin_recording() override;
  void name_recorded(std::string_view name, std::int64_t layer) override;
  /// The graph uses this table's scratch: one caller at a time, as for operations.
  std::unique_ptr<RecordedGraph> end_recording() override;

  /// Bytes of attention scratch now held: the largest call so far.
  std::size_t held_bytes(AttentionKind kind) const;

 private:
  /// Runs part(Share) for `n_lanes` lanes now, or records it with describe(), its GraphNode.
  template <class Part, class Describe>
  void issue(int n_lanes, const Part& part, const Describe& describe);
  std::unique_ptr<AttentionCall> new_attention(AttentionKind kind);

  int n_threads_;
  F32Products f32_products_;
  Scratch naive_scratch_;
  Scratch fused_scratch_;
  NaiveAttention naive_;  // of operations that run by themselves
  FusedAttention fused_;
  std::unique_ptr<CpuGraph> recording_;  // null: operations run
};

}  // namespace kvlab::cpu
