// Every variant of every tiny checkpoint gives the tokens and logits of an independent float64 program.

#include <gtest/gtest.h>

#include "model/reference_forward.h"
#include "tests/model/golden_models.h"
#include "variants/registry.h"

namespace kvlab::testing {
namespace {

constexpr double kTolerance = 1e-3;  // on logits of order 10 in f32; the project's line for these checkpoints

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  static void expect_golden(const GoldenModel& golden, const Variant& variant) {
    Transformer transformer(test_operations(), golden.checkpoint.weights, variant);
    expect_golden(golden, transformer, variant);
  }

  static void expect_golden(const GoldenModel& golden, Transformer& transformer, const Variant& variant) {
    const auto n = static_cast<std::int64_t>(golden.greedy.size());
    Decoder decoder(transformer, variant, 1, static_cast<std::int64_t>(golden.prompt.size()) + n);
    std::vector<float> logits;
    EXPECT_EQ(run_greedy(decoder, golden.prompt, n, &logits), golden.greedy) << variant_label(variant);
    const double worst = worst_difference(logits, golden.logits_last);
    EXPECT_TRUE(worst <= kTolerance) << variant_label(variant) << ": " << worst;
  }

  static bool preserves_output(const GoldenModel& golden, const Variant& variant) {
    const ModelConfig& config = golden.checkpoint.config;
    return resolve_kv_heads(variant, config.n_heads, config.n_kv_heads) >= config.n_kv_heads &&
           variant.kv_dtype == DType::f32;
  }
};

TEST_P(Golden, EveryVariantGivesTheExpectedTokensAndLogits) {
  const GoldenModel golden = load_golden(GetParam());
  const ModelConfig& config = golden.checkpoint.config;
  for (const DType weight_dtype : {DType::f32, DType::bf16}) {  // the checkpoints are exact in bf16
    Variant base;
    base.weight_dtype = weight_dtype;
    std::vector<std::pair<Variant, std::unique_ptr<Transformer>>> packed;
    for (const Variant& variant : every_variant(base, config.n_heads, config.n_kv_heads)) {
      if (!preserves_output(golden, variant)) continue;
      auto found = std::find_if(packed.begin(), packed.end(),
                                [&](const auto& entry) { return Transformer::same_weights(entry.first, variant); });
      if (found == packed.end()) {
        packed.emplace_back(variant,
                            std::make_unique<Transformer>(test_operations(), golden.checkpoint.weights, variant));
        found = std::prev(packed.end());
      }
      expect_golden(golden, *found->second, variant);
    }
  }
}

TEST_P(Golden, TheReferencePathGivesTheExpectedLogits) {
  const GoldenModel golden = load_golden(GetParam());
  const std::vector<double> logits = reference_logits(*golden.checkpoint.weights, golden.prompt, 1, DType::f32);
  ASSERT_EQ(logits.size(), golden.logits_last.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_TRUE(std::abs(logits[i] - golden.logits_last[i]) <= 1e-6)
        << i;  // the file holds 9 decimals; RoPE tables differ
  }
}

TEST_P(Golden, Bf16CacheStaysWithinTwiceTheNaiveError) {
  const GoldenModel golden = load_golden(GetParam());
  const auto prompt_error = [&](CacheKind cache, AttentionKind attention) {
    Variant variant;
    variant.cache = cache;
    variant.kv_dtype = DType::bf16;
    variant.prefill_attention = variant.decode_attention = attention;
    Transformer transformer(test_operations(), golden.checkpoint.weights, variant);
    Decoder decoder(transformer, variant, 1, 64);
    std::vector<float> logits;
    run_greedy(decoder, golden.prompt, 1, &logits);
    return worst_difference(logits, golden.logits_last);
  };
  const double naive = prompt_error(CacheKind::contiguous, AttentionKind::naive);
  EXPECT_GT(naive, 1e-5) << "storage in bf16 leaves a trace; none means it was not used";
  for (const CacheKind cache : {CacheKind::contiguous, CacheKind::paged, CacheKind::qkv}) {
    const double fused = prompt_error(cache, AttentionKind::fused);
    EXPECT_TRUE(fused <= 2 * naive + 1e-4) << fused << " against naive " << naive;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::ValuesIn(golden_names()), [](const auto& test_case) {
  std::string name = test_case.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace kvlab::testing
