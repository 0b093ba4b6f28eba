// After a pass only K and V live on; what the pass itself needed is workspace, and is the decoder's own (SPEC S25).

#include <gtest/gtest.h>

#include "tests/model/golden_models.h"

namespace kvlab::testing {
namespace {

TEST(SpecS25, WorkspaceIsThatOfTheLargestPassOfThisDecoder) {
  const GoldenModel golden = load_golden("llama-mha");
  Transformer transformer(test_operations(), golden.checkpoint.weights, {});
  const auto workspace_after = [&](std::int64_t prompt_tokens) {
    Decoder decoder(transformer, {}, 1, 64);
    decoder.prefill(
        std::vector<std::vector<std::int32_t>>{{golden.prompt.begin(), golden.prompt.begin() + prompt_tokens}});
    const std::int32_t token = 1;
    decoder.decode(std::span(&token, 1));
    return decoder.workspace_bytes();
  };
  const std::int64_t large = workspace_after(32);
  const std::int64_t small = workspace_after(4);  // the transformer still holds what the large pass needed
  EXPECT_LT(small, large);
  EXPECT_EQ(workspace_after(32), large);

  const ModelConfig& config = golden.checkpoint.config;
  const std::int64_t qkv = (config.n_heads + 2 * config.n_kv_heads) * config.head_dim;
  const std::int64_t row_floats = 2 * config.hidden + qkv + config.n_heads * config.head_dim + 3 * config.ffn_hidden;
  EXPECT_GE(large, 32 * row_floats * 4) << "residual, norm, QKV, heads and MLP of 32 rows";
}

TEST(SpecS25, WithoutACacheKAndVAreWorkspaceAndTheKvBytesAreZero) {
  const GoldenModel golden = load_golden("llama-mha");
  Variant variant;
  variant.cache = CacheKind::none;
  Transformer transformer(test_operations(), golden.checkpoint.weights, variant);
  Decoder decoder(transformer, variant, 1, 64);
  decoder.prefill(std::vector<std::vector<std::int32_t>>{golden.prompt});
  EXPECT_EQ(decoder.kv().used_bytes, 0);
  EXPECT_EQ(decoder.kv().reserved_bytes, 0);
  EXPECT_GT(decoder.workspace_bytes(), 0);
}

/// What a device would send back with sampling on the host.
TEST(SpecS20, AStepHandsTheHostOneRowOfLogitsASequence) {
  const GoldenModel golden = load_golden("llama-gqa");
  const std::int64_t vocab_size = golden.checkpoint.config.vocab_size;
  Transformer transformer(test_operations(), golden.checkpoint.weights, {});
  Decoder decoder(transformer, {}, 3, 64);
  decoder.prefill(std::vector<std::vector<std::int32_t>>{{1, 2, 3}, {4}, {5, 6}});
  decoder.decode(std::vector<std::int32_t>{7, 8, 9});
  std::int64_t bytes = 0;
  for (std::int64_t seq = 0; seq < 3; ++seq) {
    bytes += static_cast<std::int64_t>(decoder.all_logits(seq).size_bytes());
  }
  EXPECT_EQ(bytes, 3 * vocab_size * 4);
}

}  // namespace
}  // namespace kvlab::testing
