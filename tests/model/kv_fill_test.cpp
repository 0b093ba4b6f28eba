// Drawn K and V: every cache and way of issuing sees the same ones, and a step at a depth does what it does after a
// prefill.

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/error.h"
#include "tests/model/golden_models.h"
#include "variants/registry.h"

namespace kvlab::testing {
namespace {

constexpr std::int64_t kDepth = 37;
constexpr std::int64_t kSeqs = 2;

class Filled {
 public:
  explicit Filled(const Variant& variant, const KvDraw& draw = {4, 0, 0})
      : transformer_(test_operations(), make_synthetic_weights(small_config(), 3), variant),
        decoder_(transformer_, variant, kSeqs, kDepth + 4) {
    decoder_.fill(kDepth, draw);
  }

  /// Logits of both sequences after one step, end to end.
  std::vector<float> step() {
    decoder_.decode(std::vector<std::int32_t>{5, 9});
    std::vector<float> all;
    for (std::int64_t seq = 0; seq < kSeqs; ++seq) {
      const std::span<const float> logits = decoder_.logits(seq);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  }
  Decoder& decoder() { return decoder_; }

 private:
  Transformer transformer_;
  Decoder decoder_;
};

std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

TEST(KvFill, CachesAndExecutionsSeeTheSameKAndV) {
  const std::vector<float> expected = Filled(Variant()).step();
  std::vector<Variant> variants(4);
  variants[0].cache = CacheKind::paged;
  variants[0].page_size = 5;
  variants[1].cache = CacheKind::qkv;
  variants[2].execution = ExecutionKind::graph;
  variants[3].cache = CacheKind::paged;
  variants[3].page_size = 16;
  variants[3].execution = ExecutionKind::graph;
  for (const Variant& variant : variants) EXPECT_EQ(Filled(variant).step(), expected) << variant_label(variant);
  Variant naive;
  naive.decode_attention = AttentionKind::naive;
  EXPECT_TRUE(worst_difference(Filled(naive).step(), widened(expected)) <= 1e-4);
}

TEST(KvFill, SeedsAndSequencesDiffer) {
  const std::vector<float> expected = Filled(Variant()).step();
  EXPECT_TRUE(worst_difference(Filled(Variant(), {5, 0, 0}).step(), widened(expected)) > 1e-2);
  // The second sequence of one draw is the first of a draw that begins there.
  Filled shifted(Variant(), {4, 0, 1});
  shifted.decoder().decode(std::vector<std::int32_t>{9, 5});
  const std::span<const float> second(expected.data() + small_config().vocab_size,
                                      static_cast<std::size_t>(small_config().vocab_size));
  EXPECT_TRUE(std::equal(second.begin(), second.end(), shifted.decoder().logits(0).begin()));
}

TEST(KvFill, ReplicatedHeadsComputeWhatTheModelsOwnDo) {
  Variant mha;
  mha.heads = HeadsKind::mha;
  const KvDraw own{4, small_config().n_kv_heads, 0};
  EXPECT_TRUE(worst_difference(Filled(mha, own).step(), widened(Filled(Variant(), own).step())) <= 1e-4);
  EXPECT_TRUE(worst_difference(Filled(mha).step(), widened(Filled(Variant()).step())) > 1e-2);  // six heads drawn
}

TEST(KvFill, CountsAndFootprintAreThoseOfADepth) {
  Filled filled{Variant()};
  filled.step();
  EXPECT_EQ(filled.decoder().length(1), kDepth + 1);
  EXPECT_EQ(filled.decoder().last_work().attention_dots.front(), kSeqs * (kDepth + 1));
  EXPECT_EQ(filled.decoder().total_work().rows, kSeqs);  // the filled tokens took no pass
  const KvFootprint kv = filled.decoder().kv();
  EXPECT_EQ(kv.used_bytes, kSeqs * (kDepth + 1) * kv.bytes_per_token);
}

TEST(KvFill, ACacheThatKeepsNothingOrIsTooSmallIsRefused) {
  Variant none;
  none.cache = CacheKind::none;
  EXPECT_THROW(Filled{none}, InputError);
  Transformer transformer(test_operations(), make_synthetic_weights(small_config(), 3), Variant());
  Decoder decoder(transformer, Variant(), 1, kDepth - 1);
  EXPECT_THROW(decoder.fill(kDepth, {}), InputError);
}

}  // namespace
}  // namespace kvlab::testing
