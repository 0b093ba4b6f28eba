// A backend of plain loops for the tests that counts what it executes: each multiply-add, each weight element it
// touches, each cache row it reads or writes. It shares no code with the CPU backend and knows none of the formulas.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/operation_table.h"
#include "kernels/operations.h"
#include "model/model_config.h"

namespace kvlab::testing {

struct OperationCount {
  std::int64_t flops = 0;  // multiplications and additions of products and of attention
  std::int64_t weight_bytes = 0;
  std::int64_t kv_read_bytes = 0;
  std::int64_t kv_write_bytes = 0;

  bool operator==(const OperationCount&) const = default;
};

/// Of all passes since the last look. Q, K and V count as one operation, kv_projection: with MHA their weights have one
/// shape, by which a product is recognised.
struct PhaseCount {
  std::map<Operation, OperationCount> operations;
  std::int64_t rows = 0;                                // ids embedded
  std::int64_t appended_rows = 0;                       // of the first layer
  std::vector<std::int64_t> attention_dots;             // [n_layers] head 0
  std::vector<std::int64_t> attention_dots_newest_row;  // [n_layers] head 0, each sequence's last row
  std::int64_t rows_never_stored = 0;                   // K or V rows that attention read and no append had written
};

/// Weights and cache rows are read whole, so both are noted by the row. Weights are kept as f32 whatever the storage
/// asked for; their bytes count at that storage.
class CountingOperations final : public Operations {
 public:
  /// `config` has the heads that run. Its matrices differ in shape from each other, Q, K and V apart.
  explicit CountingOperations(const ModelConfig& config) : config_(config) {}

  /// What was counted since the last call.
  PhaseCount take();

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
  AttentionWork attention(AttentionKind kind, const AttentionArgs& args) override;
  std::size_t attention_workspace_bytes(AttentionKind, const AttentionArgs&) const override { return 0; }
  void silu_multiply(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out) override;
  void gelu(float* x, std::int64_t n_values) override;
  void gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> rows, std::int64_t width,
                   float* dst, std::int64_t dst_stride) override;

 private:
  using Address = const void*;
  struct Bytes {
    Operation operation;
    std::int64_t bytes;
  };

  void end_pass();
  Operation operation_of(const PackedMatrix& weight) const;
  void use_row(Operation operation, const float* row, std::int64_t n_elements);
  void use_norm(const float* weight, std::int64_t width);
  /// A row of the cache as f32 [head_dim], noted as read.
  std::vector<float> read_row(const void* base, const KvView& view, std::int64_t offset, std::int64_t head_dim);
  std::int64_t store_row(const float* row, const KvView& view, void* base, std::int64_t offset, std::int64_t head_dim);
  std::int64_t attend(const AttentionArgs& args, std::int64_t seq, std::int64_t query, std::int64_t head);

  const ModelConfig config_;
  DType storage_ = DType::f32;                  // of the weights
  std::map<Address, Bytes> used_rows_;          // rows of weights, this pass
  std::map<Address, std::int64_t> read_;        // bytes of cache rows, this pass
  std::set<Address> stored_;                    // K and V rows that an append ever wrote
  std::map<const float*, std::int64_t> norms_;  // widths of norm weights whose product has not come yet
  std::size_t layer_ = 0;                       // of the next attention of this pass
  PhaseCount count_;
};

}  // namespace kvlab::testing
