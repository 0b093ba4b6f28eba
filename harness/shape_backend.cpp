#include "harness/shape_backend.h"

#include <vector>

namespace kvlab {
namespace {

class ShapeMatrix final : public PackedMatrix {
 public:
  ShapeMatrix(const HostMatrix& weight, DType storage) : n_out_(weight.rows), n_in_(weight.cols), dtype_(storage) {}
  std::int64_t n_out() const override { return n_out_; }
  std::int64_t n_in() const override { return n_in_; }
  DType dtype() const override { return dtype_; }

 private:
  std::int64_t n_out_;
  std::int64_t n_in_;
  DType dtype_;
};

class HeapBuffer final : public Buffer {
 public:
  explicit HeapBuffer(std::size_t bytes) : bytes_(bytes) {}
  void* data() override { return bytes_.data(); }
  std::size_t bytes() const override { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

class ShapeOperations final : public Operations {
 public:
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return std::make_unique<HeapBuffer>(bytes); }
  std::unique_ptr<PackedMatrix> pack_matrix(const HostMatrix& weight, DType storage) override {
    return std::make_unique<ShapeMatrix>(weight, storage);
  }
  std::unique_ptr<PackedMatrix> pack_table(const HostMatrix& table, DType storage) override {
    return std::make_unique<ShapeMatrix>(table, storage);
  }

  AttentionWork attention(AttentionKind, const AttentionArgs& args) override {
    return visible_work(args.seqs, args.window);
  }
  std::size_t attention_workspace_bytes(AttentionKind, const AttentionArgs&) const override { return 0; }

  void embed(const PackedMatrix&, std::span<const std::int32_t>, float*, bool) override {}
  void matmul(const PackedMatrix&, const float*, std::int64_t, std::int64_t, float*, std::int64_t, const float*,
              bool) override {}
  void rms_norm(const float*, std::int64_t, std::int64_t, std::int64_t, const float*, float, float*,
                std::int64_t) override {}
  void layer_norm(const float*, std::int64_t, std::int64_t, std::int64_t, const float*, const float*, float, float*,
                  std::int64_t) override {}
  void rope(float*, std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
            const float*) override {}
  void append(const float*, const float*, std::int64_t, std::span<const SequenceSpan>, std::int64_t, std::int64_t,
              const KvView&) override {}
  void silu_multiply(const float*, std::int64_t, std::int64_t, float*) override {}
  void gelu(float*, std::int64_t) override {}
  void gather_rows(const float*, std::int64_t, std::span<const std::int64_t>, std::int64_t, float*,
                   std::int64_t) override {}
};

class ShapeWeights final : public WeightSource {
 public:
  explicit ShapeWeights(const ModelConfig& config) : config_(config) {}
  const ModelConfig& config() const override { return config_; }

  HostMatrix read(WeightRole role, std::int64_t) const override {
    const RoleShape shape = role_shape(config_, role);
    if (shape.rows == 1) return HostMatrix(shape.rows, shape.cols);
    HostMatrix matrix;
    matrix.rows = shape.rows;
    matrix.cols = shape.cols;
    return matrix;
  }

 private:
  ModelConfig config_;
};

}  // namespace

std::unique_ptr<Operations> make_shape_operations() { return std::make_unique<ShapeOperations>(); }

std::unique_ptr<WeightSource> make_shape_weights(const ModelConfig& config) {
  return std::make_unique<ShapeWeights>(config);
}

}  // namespace kvlab
