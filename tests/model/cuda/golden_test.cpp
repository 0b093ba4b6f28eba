// The tiny checkpoints of tests/golden on the emulated device: tokens and logits of an independent float64 program.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda_emulation/backend.h"
#include "tests/model/golden_models.h"
#include "variants/registry.h"

namespace kvlab::testing {
namespace {

constexpr double kTolerance = 1e-3;  // on logits of order 10 in f32; the project's line for these checkpoints

/// A device for one test and the backend over it.
class CudaGolden : public ::testing::TestWithParam<std::string> {
 protected:
  explicit CudaGolden(GemvSetting gemv = GemvSetting::own)
      : ops_(cuda::emulation::make_emulated_operations(device_, gemv)) {}

  Transformer& transformer(const GoldenModel& golden, const Variant& variant) {
    auto found = std::find_if(packed_.begin(), packed_.end(),
                              [&](const auto& entry) { return Transformer::same_weights(entry.first, variant); });
    if (found == packed_.end()) {
      packed_.emplace_back(variant, std::make_unique<Transformer>(ops_, golden.checkpoint.weights, variant));
      found = std::prev(packed_.end());
    }
    return *found->second;
  }

  /// The first `n` tokens, and the prompt's logits within 1e-3 where no storage rounds.
  void expect_golden(const GoldenModel& golden, const Variant& variant, std::int64_t n) {
    Decoder decoder(transformer(golden, variant), variant, 1, static_cast<std::int64_t>(golden.prompt.size()) + n);
    std::vector<float> logits;
    const std::vector<std::int32_t> expected(golden.greedy.begin(), golden.greedy.begin() + n);
    EXPECT_EQ(run_greedy(decoder, golden.prompt, n, &logits), expected) << variant_label(variant);
    if (variant.weight_dtype != DType::f32 || variant.kv_dtype != DType::f32) return;
    const double worst = worst_difference(logits, golden.logits_last);
    EXPECT_TRUE(worst <= kTolerance) << variant_label(variant) << ": " << worst;
  }

  cuda::emulation::Device device_{{.counts = false}};
  std::shared_ptr<Operations> ops_;
  std::vector<std::pair<Variant, std::unique_ptr<Transformer>>> packed_;
};

Variant choice(CacheKind cache, AttentionKind attention, DType dtype) {
  Variant variant;
  variant.cache = cache;
  variant.prefill_attention = variant.decode_attention = attention;
  variant.weight_dtype = variant.kv_dtype = dtype;
  return variant;
}

constexpr std::int64_t kTokens = 6;  // emulated steps are slow

TEST_P(CudaGolden, F32GivesTheExpectedTokensAndLogits) {
  const GoldenModel golden = load_golden(GetParam());
  expect_golden(golden, choice(CacheKind::contiguous, AttentionKind::naive, DType::f32), kTokens);
  expect_golden(golden, choice(CacheKind::paged, AttentionKind::fused, DType::f32), kTokens);
}

TEST_P(CudaGolden, Bf16GivesTheExpectedTokens) {
  const GoldenModel golden = load_golden(GetParam());
  expect_golden(golden, choice(CacheKind::contiguous, AttentionKind::naive, DType::bf16), kTokens);
  expect_golden(golden, choice(CacheKind::paged, AttentionKind::fused, DType::bf16), kTokens);
}

std::string model_name(const ::testing::TestParamInfo<std::string>& test_case) {
  std::string name = test_case.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, CudaGolden, ::testing::ValuesIn(golden_names()), model_name);

/// Few steps, for the sanitizer that finds races between the threads of a block (preset tsan runs these alone).
using CudaGoldenRaces = CudaGolden;

TEST_P(CudaGoldenRaces, StepsInBothPrecisionsGiveTheExpectedTokens) {
  const GoldenModel golden = load_golden(GetParam());
  expect_golden(golden, choice(CacheKind::contiguous, AttentionKind::naive, DType::f32), 2);
  expect_golden(golden, choice(CacheKind::paged, AttentionKind::fused, DType::bf16), 2);
}

INSTANTIATE_TEST_SUITE_P(Models, CudaGoldenRaces, ::testing::Values("llama-gqa", "gpt2"), model_name);

/// Products are the stand-in's: they do not depend on the variant, and the tests above run them by our GEMV.
class CudaGoldenVariants : public CudaGolden {
 protected:
  CudaGoldenVariants() : CudaGolden(GemvSetting::cublas) {}
};

TEST_P(CudaGoldenVariants, EveryVariantGivesTheExpectedTokensAndLogits) {
  const GoldenModel golden = load_golden(GetParam());
  const ModelConfig& config = golden.checkpoint.config;
  const auto n_tokens = static_cast<std::int64_t>(golden.greedy.size());
  for (const Variant& variant : every_variant({}, config.n_heads, config.n_kv_heads)) {
    const bool preserves = resolve_kv_heads(variant, config.n_heads, config.n_kv_heads) >= config.n_kv_heads;
    // Without a cache each token is one more prefill, by the same kernels.
    if (preserves) expect_golden(golden, variant, variant.cache == CacheKind::none ? 2 : n_tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CudaGoldenVariants, ::testing::ValuesIn(golden_names()), model_name);

}  // namespace
}  // namespace kvlab::testing
