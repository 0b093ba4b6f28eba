// The CUDA backend's operation table: each operation becomes launches on one stream. Knows no CUDA header, so that the
// same code runs over a device and over the emulator.
#pragma once

#include <memory>

#include "kernels/cuda/backend/device_context.h"
#include "kernels/cuda/backend/device_graph.h"
#include "kernels/cuda/backend/event_marks.h"
#include "kernels/cuda/backend/host_mirror.h"
#include "kernels/cuda/backend/memory_probes.h"
#include "kernels/cuda/backend/naive_attention.h"
#include "kernels/cuda/backend/pinned_copies.h"
#include "kernels/cuda/product_choice.h"
#include "kernels/operations.h"

namespace kvlab::cuda {

/// One caller at a time. Operations return when their work is on the stream; `download` waits for it.
class DeviceOperations final : public Operations {
 public:
  DeviceOperations(std::unique_ptr<Runtime> runtime, std::unique_ptr<MatmulEngine> matmuls, ProductChoices choices);

  std::unique_ptr<Buffer> allocate(std::size_t bytes) override;
  void upload(void* to, const void* from, std::size_t bytes) override;
  void download(void* to, const void* from, std::size_t bytes) override;
  std::unique_ptr<PendingCopy> start_download(const void* from, std::size_t bytes) override;
  std::unique_ptr<TimeMark> mark() override;
  Transfers transfers() const override;
  void begin_step() override;

  std::unique_ptr<PackedMatrix> pack_matrix(const HostMatrix& weight, DType storage) override;
  std::unique_ptr<PackedMatrix> pack_table(const HostMatrix& table, DType storage) override;
  bool tables_multiply() const override { return true; }
  std::unique_ptr<PackedMatrix> pack_random_matrix(std::span<const RandomRows> parts, std::int64_t n_in,
                                                   DType storage) override;
  std::unique_ptr<PackedMatrix> pack_random_table(std::span<const RandomRows> parts, std::int64_t n_in,
                                                  DType storage) override;
  /// Products of as few rows as the GEMV takes; rotation with append.
  Fusions fusions() const override;
  void fused_matmul(const FusedProduct& product) override;
  void rope_append(const RopeAppend& step) override;
  void fill_kv(const RandomKv& values, std::int64_t n_seqs, std::int64_t n_tokens, std::int64_t n_kv_heads,
               std::int64_t head_dim, const KvView& view) override;
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
  /// The work is that of the mask. Fused attention over a head_dim that no kernel takes runs as naive.
  AttentionWork attention(AttentionKind kind, const AttentionArgs& args) override;
  std::size_t attention_workspace_bytes(AttentionKind kind, const AttentionArgs& args) const override;
  bool rounds_product_inputs() const override { return true; }
  bool rounds_attention(AttentionKind kind, const AttentionArgs& args) const override;
  void silu_multiply(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out) override;
  void gelu(float* x, std::int64_t n_values) override;
  void gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> rows, std::int64_t width,
                   float* dst, std::int64_t dst_stride) override;
  void argmax(const float* logits, std::int64_t stride, std::int64_t n_rows, std::int32_t n_choices,
              std::int32_t* ids) override;
  void sample(const float* logits, std::int64_t stride, std::int32_t n_choices, std::span<const RowSampling> rows,
              void* scratch, std::int32_t* ids) override;
  std::size_t sample_scratch_bytes(std::int64_t n_rows, std::int32_t n_choices) const override;

  std::string product_choices() const override;
  DeviceProbes* probes() override { return &probes_; }

  void begin_recording() override;
  void name_recorded(std::string_view name, std::int64_t layer) override;
  /// The graph uses this table's scratch: one caller at a time, as for operations.
  std::unique_ptr<RecordedGraph> end_recording() override;

  void start_profiler() override { context_->runtime().start_profiler(); }
  void stop_profiler() override { context_->runtime().stop_profiler(); }

 private:
  /// Where this operation's host arrays are copied.
  HostMirror& mirror() { return recording_ == nullptr ? mirror_ : recording_->mirror(); }
  /// Calls launch(stream) now, or records it with describe(), its GraphNode.
  template <class Launch, class Describe>
  void issue(const Launch& launch, const Describe& describe);
  /// The same for work that has scratch to prepare.
  template <class Describe>
  void issue_work(std::unique_ptr<Work> work, const Describe& describe);
  std::unique_ptr<Work> attention_work(bool fused, const AttentionArgs& args);

  std::shared_ptr<DeviceContext> context_;
  HostMirror mirror_;
  DecodePlans plans_;
  PinnedCopies copies_;
  EventMarks marks_;
  ProductChoices choices_;
  ScratchMemory rounded_;  // [n_rows, n_in] bf16: the input of a product with bf16 weights
  NaiveScratch naive_;
  ScratchMemory fused_;
  std::unique_ptr<DeviceGraph> recording_;  // null: operations run
  MemoryProbes probes_;
};

}  // namespace kvlab::cuda
