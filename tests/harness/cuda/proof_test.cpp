// What `kvlab verify` proves of a backend that multiplies in bf16: right variants pass, and faults do not.
#include "harness/proof.h"

#include <gtest/gtest.h>

#include "kernels/cuda_emulation/backend.h"
#include "tests/model/golden_models.h"
#include "variants/registry.h"

namespace kvlab::testing {
namespace {

/// A checkpoint of which a transformer gets one matrix scaled, until `mend`: its reference has the right one.
class SpoiltWeights final : public WeightSource {
 public:
  SpoiltWeights(std::shared_ptr<const WeightSource> source, WeightRole role, float factor)
      : source_(std::move(source)), role_(role), factor_(factor) {}

  const ModelConfig& config() const override { return source_->config(); }
  HostMatrix read(WeightRole role, std::int64_t layer) const override {
    HostMatrix matrix = source_->read(role, layer);
    if (role == role_) {
      for (float& value : matrix.values) value *= factor_;
    }
    return matrix;
  }
  void mend() { factor_ = 1.0F; }

 private:
  std::shared_ptr<const WeightSource> source_;
  WeightRole role_;
  float factor_;
};

class CudaProof : public ::testing::Test {
 protected:
  static constexpr std::int64_t kPromptTokens = 9;

  explicit CudaProof(const std::string& name = "llama-gqa") : golden_(load_golden(name)) {
    ids_.assign(golden_.prompt.begin(), golden_.prompt.begin() + kPromptTokens + 3);
  }

  ModelSession session() const { return ModelSession(golden_.checkpoint, ops_, 1, 1); }

  ProofOutcome prove(ModelSession& session, const Variant& variant) const {
    return Proof(session, ids_, kPromptTokens).prove(variant);
  }

  /// The device has one matrix of each layer scaled.
  ProofOutcome prove_spoilt(const Variant& variant, WeightRole role, float factor) {
    auto spoilt = std::make_shared<SpoiltWeights>(golden_.checkpoint.weights, role, factor);
    Checkpoint checkpoint = golden_.checkpoint;
    checkpoint.weights = spoilt;
    ModelSession session(checkpoint, ops_, 1, 1);
    session.keep_layer(1);
    session.transformer(variant);  // packs
    spoilt->mend();
    return prove(session, variant);
  }

  GoldenModel golden_;
  std::vector<std::int32_t> ids_;
  cuda::emulation::Device device_{{.counts = false}};
  std::shared_ptr<Operations> ops_ = cuda::emulation::make_emulated_operations(device_);
};

Variant choice(AttentionKind attention, DType weights, DType kv) {
  Variant variant;
  variant.prefill_attention = variant.decode_attention = attention;
  variant.weight_dtype = weights;
  variant.kv_dtype = kv;
  return variant;
}

std::vector<Variant> choices() {
  std::vector<Variant> all;
  for (const AttentionKind attention : {AttentionKind::naive, AttentionKind::fused}) {
    for (const DType weights : {DType::f32, DType::bf16}) {
      for (const DType kv : {DType::f32, DType::bf16}) all.push_back(choice(attention, weights, kv));
    }
  }
  Variant pruned = choice(AttentionKind::fused, DType::bf16, DType::bf16);
  pruned.prune = PruneKind::last_layer;
  pruned.prefill_chunk = 4;  // the last of 9 tokens comes alone
  all.push_back(pruned);
  Variant grouped = choice(AttentionKind::fused, DType::f32, DType::bf16);
  grouped.heads = HeadsKind::mqa;  // one KV head for all: tensor cores in decode as well
  all.push_back(grouped);
  Variant recomputed = choice(AttentionKind::fused, DType::bf16, DType::bf16);
  recomputed.cache = CacheKind::none;
  all.push_back(recomputed);
  return all;
}

std::string describe(const ProofOutcome& outcome) {
  return std::to_string(outcome.difference.worst) + " against " + std::to_string(outcome.tolerance) + ", " +
         outcome.derivation;
}

TEST_F(CudaProof, EveryStoragePassesAsAWholeAndByLayer) {
  for (const bool whole : {true, false}) {
    ModelSession session = this->session();
    if (!whole) session.keep_layer(1);
    for (const Variant& variant : choices()) {
      const ProofOutcome outcome = prove(session, variant);
      EXPECT_TRUE(outcome.passed()) << variant_label(variant) << ": " << describe(outcome);
      EXPECT_GT(outcome.difference.worst, 0.0);
    }
  }
}

TEST_F(CudaProof, AMatrixThatIsFourPercentOffFails) {
  for (const WeightRole role : {WeightRole::q, WeightRole::v, WeightRole::attention_output, WeightRole::down}) {
    const ProofOutcome outcome = prove_spoilt(choice(AttentionKind::fused, DType::bf16, DType::bf16), role, 1.04F);
    EXPECT_FALSE(outcome.passed()) << static_cast<int>(role) << ": " << describe(outcome);
  }
}

}  // namespace
}  // namespace kvlab::testing
