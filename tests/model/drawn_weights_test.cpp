// A backend that draws synthetic weights itself gets the matrices that it would have been handed, row for row.

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

#include "model/packed_weights.h"
#include "model/weight_source.h"
#include "tests/model/golden_models.h"

namespace kvlab::testing {
namespace {

struct KeptMatrix final : PackedMatrix {
  explicit KeptMatrix(HostMatrix kept) : values(std::move(kept)) {}
  std::int64_t n_out() const override { return values.rows; }
  std::int64_t n_in() const override { return values.cols; }
  DType dtype() const override { return DType::f32; }

  HostMatrix values;
};

struct KeptBuffer final : Buffer {
  explicit KeptBuffer(std::size_t n) : memory(n) {}
  void* data() override { return memory.data(); }
  std::size_t bytes() const override { return memory.size(); }

  std::vector<std::byte> memory;
};

/// Keeps weights as values and computes nothing. When it draws, it evaluates the formulas itself, and is handed none.
class KeepingOperations final : public Operations {
 public:
  explicit KeepingOperations(bool draws) : draws_(draws) {}

  int n_handed = 0;

  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return std::make_unique<KeptBuffer>(bytes); }
  std::unique_ptr<PackedMatrix> pack_matrix(const HostMatrix& weight, DType) override {
    ++n_handed;
    return std::make_unique<KeptMatrix>(weight);
  }
  std::unique_ptr<PackedMatrix> pack_table(const HostMatrix& table, DType storage) override {
    return pack_matrix(table, storage);
  }
  std::unique_ptr<PackedMatrix> pack_random_matrix(std::span<const RandomRows> parts, std::int64_t n_in,
                                                   DType) override {
    if (!draws_) return nullptr;
    HostMatrix matrix;
    matrix.cols = n_in;
    for (const RandomRows& part : parts) {
      matrix.rows += part.n_rows;
      const auto n = static_cast<std::uint64_t>(part.n_rows * n_in);
      for (std::uint64_t i = 0; i < n; ++i) matrix.values.push_back(random_value(part.values, i));
    }
    return std::make_unique<KeptMatrix>(std::move(matrix));
  }
  std::unique_ptr<PackedMatrix> pack_random_table(std::span<const RandomRows> parts, std::int64_t n_in,
                                                  DType storage) override {
    return pack_random_matrix(parts, n_in, storage);
  }

  void embed(const PackedMatrix&, std::span<const std::int32_t>, float*, bool) override { computes_nothing(); }
  void matmul(const PackedMatrix&, const float*, std::int64_t, std::int64_t, float*, std::int64_t, const float*,
              bool) override {
    computes_nothing();
  }
  void rms_norm(const float*, std::int64_t, std::int64_t, std::int64_t, const float*, float, float*,
                std::int64_t) override {
    computes_nothing();
  }
  void layer_norm(const float*, std::int64_t, std::int64_t, std::int64_t, const float*, const float*, float, float*,
                  std::int64_t) override {
    computes_nothing();
  }
  void rope(float*, std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
            const float*) override {
    computes_nothing();
  }
  void append(const float*, const float*, std::int64_t, std::span<const SequenceSpan>, std::int64_t, std::int64_t,
              const KvView&) override {
    computes_nothing();
  }
  AttentionWork attention(AttentionKind, const AttentionArgs&) override { computes_nothing(); }
  std::size_t attention_workspace_bytes(AttentionKind, const AttentionArgs&) const override { return 0; }
  void silu_multiply(const float*, std::int64_t, std::int64_t, float*) override { computes_nothing(); }
  void gelu(float*, std::int64_t) override { computes_nothing(); }
  void gather_rows(const float*, std::int64_t, std::span<const std::int64_t>, std::int64_t, float*,
                   std::int64_t) override {
    computes_nothing();
  }

 private:
  [[noreturn]] static void computes_nothing() { throw std::logic_error("weights are packed here, and nothing else"); }

  bool draws_;
};

void expect_equal(const std::unique_ptr<PackedMatrix>& drawn, const std::unique_ptr<PackedMatrix>& handed) {
  ASSERT_EQ(drawn == nullptr, handed == nullptr);
  if (drawn == nullptr) return;
  const HostMatrix& a = dynamic_cast<const KeptMatrix&>(*drawn).values;
  const HostMatrix& b = dynamic_cast<const KeptMatrix&>(*handed).values;
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.cols, b.cols);
  EXPECT_EQ(a.values, b.values);
}

void expect_equal(const PackedWeights& drawn, const PackedWeights& handed) {
  expect_equal(drawn.token_embedding, handed.token_embedding);
  expect_equal(drawn.position_embedding, handed.position_embedding);
  expect_equal(drawn.own_lm_head, handed.own_lm_head);
  ASSERT_EQ(drawn.layers.size(), handed.layers.size());
  for (std::size_t l = 0; l < drawn.layers.size(); ++l) {
    const PackedLayer& a = drawn.layers[l];
    const PackedLayer& b = handed.layers[l];
    expect_equal(a.qkv.joined.weight, b.qkv.joined.weight);
    expect_equal(a.qkv.q.weight, b.qkv.q.weight);
    expect_equal(a.qkv.kv.weight, b.qkv.kv.weight);
    expect_equal(a.qkv.k.weight, b.qkv.k.weight);
    expect_equal(a.qkv.v.weight, b.qkv.v.weight);
    expect_equal(a.attention_output.weight, b.attention_output.weight);
    expect_equal(a.up.weight, b.up.weight);
    expect_equal(a.down.weight, b.down.weight);
  }
}

TEST(DrawnWeights, AreTheMatricesThatWouldHaveBeenHandedOver) {
  std::vector<ModelConfig> configs(3, small_config());
  configs[1].tied_embedding = true;
  configs[2].family = Family::gpt2;
  configs[2].architecture = "gpt2";
  configs[2].n_kv_heads = configs[2].n_heads;
  configs[2].tied_embedding = true;
  std::vector<Variant> variants(3);
  variants[1].projection = ProjectionKind::separate;
  variants[2].prune = PruneKind::last_layer;
  for (const ModelConfig& config : configs) {
    for (const Variant& variant : variants) {
      const auto weights = make_synthetic_weights(config, 5);
      KeepingOperations draws(true);
      KeepingOperations takes(false);
      expect_equal(pack_weights(*weights, variant, draws, {}), pack_weights(*weights, variant, takes, {}));
      EXPECT_EQ(draws.n_handed, 0);
      EXPECT_GT(takes.n_handed, 0);
    }
  }
}

TEST(DrawnWeights, OfReheadedOnesQkvIsHandedOver) {
  // Pooled heads are means of drawn ones: no formula of ours gives them.
  const std::shared_ptr<const WeightSource> weights = make_synthetic_weights(small_config(), 5);
  const auto pooled = rehead(weights, 1);
  EXPECT_FALSE(pooled->drawn(WeightRole::k, 0).has_value());
  EXPECT_TRUE(pooled->drawn(WeightRole::down, 0).has_value());
  KeepingOperations draws(true);
  KeepingOperations takes(false);
  expect_equal(pack_weights(*pooled, Variant(), draws, {}), pack_weights(*pooled, Variant(), takes, {}));
  EXPECT_EQ(draws.n_handed, small_config().n_layers);  // Q, K and V in one
}

}  // namespace
}  // namespace kvlab::testing
