// What must not change an answer: later tokens, batch mates, chunks, reused pages, where other rows are (SPEC S24).

#include <gtest/gtest.h>

#include <random>

#include "kernels/error.h"
#include "model/reference_forward.h"
#include "tests/model/golden_models.h"
#include "variants/registry.h"

namespace kvlab::testing {
namespace {

std::vector<std::int32_t> seeded_ids(std::int64_t n, std::uint64_t seed, std::int64_t vocab_size) {
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < n; ++i)
    ids.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab_size)));
  return ids;
}

TEST(SpecS24, RowsOfAShortRunEqualThoseOfALongerOneBitForBitInTheReference) {
  const GoldenModel golden = load_golden("llama-gqa");
  const std::span<const std::int32_t> all(golden.prompt);
  const std::vector<double> whole = reference_logits(*golden.checkpoint.weights, all, 37, DType::f32);
  const std::vector<double> part = reference_logits(*golden.checkpoint.weights, all.first(20), 20, DType::f32);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()));
}

TEST(SpecS24, ChangingATokenLeavesEveryRowBeforeItAsItWas) {
  GoldenModel golden = load_golden("qwen3-gqa");
  const std::int64_t vocab = golden.checkpoint.config.vocab_size;
  const std::vector<double> before = reference_logits(*golden.checkpoint.weights, golden.prompt, 37, DType::f32);
  golden.prompt[20] = (golden.prompt[20] + 1) % static_cast<std::int32_t>(vocab);
  const std::vector<double> after = reference_logits(*golden.checkpoint.weights, golden.prompt, 37, DType::f32);
  const auto row = [&](std::int64_t r) { return before.begin() + r * vocab; };
  EXPECT_TRUE(std::equal(row(0), row(20), after.begin()));
  EXPECT_FALSE(std::equal(row(20), row(21), after.begin() + 20 * vocab));
}

TEST(SpecS24, TheCpuPathToo) {
  const GoldenModel golden = load_golden("llama-gqa");
  const std::int64_t vocab = golden.checkpoint.config.vocab_size;
  for (const AttentionKind attention : {AttentionKind::naive, AttentionKind::fused}) {
    Variant variant;
    variant.logits = LogitsKind::all;
    variant.prefill_attention = attention;
    Transformer transformer(test_operations(), golden.checkpoint.weights, variant);
    const auto all_rows = [&](std::vector<std::int32_t> ids) {
      Decoder decoder(transformer, variant, 1, 64);
      decoder.prefill(std::span(&ids, 1));
      return std::vector<float>(decoder.all_logits(0).begin(), decoder.all_logits(0).end());
    };
    std::vector<std::int32_t> ids = golden.prompt;
    const std::vector<float> before = all_rows(ids);
    ids[20] ^= 1;
    const std::vector<float> after = all_rows(ids);
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + 20 * vocab, after.begin()));
    EXPECT_FALSE(std::equal(before.begin() + 20 * vocab, before.begin() + 21 * vocab, after.begin() + 20 * vocab));
  }
}

TEST(Batch, OfFourEqualsFourOfOne) {
  const GoldenModel golden = load_golden("llama-rope3");
  const std::int64_t vocab = golden.checkpoint.config.vocab_size;
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::int64_t n : {1, 17, 33, 8})
    prompts.push_back(seeded_ids(n, 70 + static_cast<std::uint64_t>(n), vocab));
  for (const Variant& variant : every_variant(Variant(), 4, 2)) {
    if (variant.weight_dtype != DType::f32) continue;
    Transformer transformer(test_operations(), golden.checkpoint.weights, variant);
    Decoder batch(transformer, variant, 4, 64);
    batch.prefill(prompts);
    std::vector<std::int32_t> next;
    for (std::int64_t seq = 0; seq < 4; ++seq) next.push_back(greedy_choice(batch.logits(seq)));
    batch.decode(next);
    for (std::int64_t seq = 0; seq < 4; ++seq) {
      Decoder single(transformer, variant, 1, 64);
      single.prefill(std::span(&prompts[static_cast<std::size_t>(seq)], 1));
      single.decode(std::span(&next[static_cast<std::size_t>(seq)], 1));
      const std::span<const float> expected = single.logits(0);
      const std::vector<double> wide(expected.begin(), expected.end());
      // Products over other row counts may sum in another order: a few ulps of logits of order 10.
      EXPECT_TRUE(worst_difference(batch.logits(seq), wide) <= 1e-4) << variant_label(variant) << " sequence " << seq;
    }
  }
}

TEST(PagedCache, AReusedPageGivesWhatAFreshPoolGives) {
  const GoldenModel golden = load_golden("llama-mha");
  Variant variant;
  variant.cache = CacheKind::paged;
  variant.page_size = 4;
  Transformer transformer(test_operations(), golden.checkpoint.weights, variant);
  Decoder used(transformer, variant, 1, 40);
  used.prefill(std::vector<std::vector<std::int32_t>>{seeded_ids(37, 3, 256)});
  used.release(0);
  const std::vector<std::vector<std::int32_t>> prompt = {seeded_ids(11, 4, 256)};
  used.prefill(prompt);
  Decoder fresh(transformer, variant, 1, 40);
  fresh.prefill(prompt);
  EXPECT_TRUE(std::equal(used.logits(0).begin(), used.logits(0).end(), fresh.logits(0).begin()));
}

TEST(Decoder, DepthThenPromptEqualsOnePrompt) {
  const GoldenModel golden = load_golden("qwen2-gqa");
  const std::vector<std::int32_t> ids = golden.prompt;
  for (const CacheKind cache : {CacheKind::none, CacheKind::contiguous, CacheKind::paged}) {
    Variant variant;
    variant.cache = cache;
    Transformer transformer(test_operations(), golden.checkpoint.weights, variant);
    Decoder decoder(transformer, variant, 1, 64);
    decoder.prefill(std::vector<std::vector<std::int32_t>>{{ids.begin(), ids.begin() + 16}});
    decoder.prefill(std::vector<std::vector<std::int32_t>>{{ids.begin() + 16, ids.end()}});
    EXPECT_TRUE(worst_difference(decoder.logits(0), golden.logits_last) <= 1e-3);
  }
}

/// Shapes that no golden has, against the float64 path: an explicit head_dim, windows, linear RoPE scaling, tied and
/// untied.
TEST(Synthetic, UncommonShapesMeetTheReference) {
  std::vector<ModelConfig> configs(4, small_config());
  configs[1].sliding_window = 5;
  configs[1].architecture = "mistral";
  configs[2].rope_scaling.kind = RopeScalingKind::linear;
  configs[2].rope_scaling.factor = 4.0;
  configs[2].qk_norm = true;
  configs[3].tied_embedding = true;
  configs[3].qkv_bias = true;
  for (std::size_t c = 0; c < configs.size(); ++c) {
    const std::shared_ptr<WeightSource> weights = make_synthetic_weights(configs[c], 11);
    const std::vector<std::int32_t> ids = seeded_ids(23, c, configs[c].vocab_size);
    for (const Variant& variant : every_variant(Variant(), configs[c].n_heads, configs[c].n_kv_heads)) {
      if (variant.weight_dtype != DType::f32 || variant.kv_dtype != DType::f32) continue;
      Transformer transformer(test_operations(), weights, variant);
      Decoder decoder(transformer, variant, 1, 32);
      decoder.prefill(std::vector<std::vector<std::int32_t>>{{ids.begin(), ids.begin() + 20}});
      for (std::size_t i = 20; i < ids.size(); ++i) decoder.decode(std::span(&ids[i], 1));
      const std::int64_t kv_heads = transformer.config().n_kv_heads;
      const std::shared_ptr<const WeightSource> same =
          kv_heads == configs[c].n_kv_heads ? weights : std::shared_ptr<const WeightSource>(rehead(weights, kv_heads));
      const std::vector<double> expected = reference_logits(*same, ids, 1, DType::f32);
      EXPECT_TRUE(worst_difference(decoder.logits(0), expected) <= 1e-3) << c << " " << variant_label(variant);
    }
  }
}

TEST(Rehead, ReplicationChangesNothingAndPoolingAverages) {
  const std::shared_ptr<WeightSource> weights = make_synthetic_weights(small_config(), 3);
  const HostMatrix k = weights->read(WeightRole::k, 1);
  const HostMatrix k6 = rehead(weights, 6)->read(WeightRole::k, 1);
  ASSERT_EQ(k6.rows, 6 * 16);
  for (std::int64_t head = 0; head < 6; ++head) {
    EXPECT_TRUE(std::equal(k6.row(head * 16), k6.row(head * 16) + 16 * 48, k.row(head / 3 * 16))) << head;
  }
  const HostMatrix k1 = rehead(weights, 1)->read(WeightRole::k, 1);
  ASSERT_EQ(k1.rows, 16);
  EXPECT_FLOAT_EQ(k1.row(5)[7], (k.row(5)[7] + k.row(16 + 5)[7]) / 2);
  EXPECT_THROW(rehead(weights, 4), InputError);
  EXPECT_THROW(rehead(weights, 0), InputError);
}

}  // namespace
}  // namespace kvlab::testing
