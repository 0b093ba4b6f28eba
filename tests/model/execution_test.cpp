// A recorded graph gives what eager operations give: logits to the last bit on one thread, and the same counts.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/model/golden_models.h"
#include "variants/registry.h"

namespace kvlab::testing {
namespace {

/// Two decoders over the same weights, fed the same tokens.
class Pair {
 public:
  Pair(Transformer& transformer, Variant variant, std::int64_t n_seqs, std::int64_t capacity)
      : eager_(transformer, variant, n_seqs, capacity), graph_(transformer, as_graph(variant), n_seqs, capacity) {}

  void prefill(const std::vector<std::vector<std::int32_t>>& prompts) {
    eager_.prefill(prompts);
    graph_.prefill(prompts);
    expect_equal();
  }
  /// Every sequence goes on with its own greedy choice.
  void decode() {
    std::vector<std::int32_t> tokens;
    for (std::int64_t seq = 0; seq < eager_.n_seqs(); ++seq) tokens.push_back(greedy_choice(eager_.logits(seq)));
    eager_.decode(tokens);
    graph_.decode(tokens);
    expect_equal();
  }
  void release(std::int64_t seq) {
    eager_.release(seq);
    graph_.release(seq);
  }
  std::int64_t n_recorded() const { return graph_.n_recorded(); }

 private:
  static Variant as_graph(Variant variant) {
    variant.execution = ExecutionKind::graph;
    return variant;
  }

  void expect_equal() const {
    for (std::int64_t seq = 0; seq < eager_.n_seqs(); ++seq) {
      const std::span<const float> expected = eager_.all_logits(seq);
      const std::span<const float> actual = graph_.all_logits(seq);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), actual.begin(), actual.end()))
          << variant_label(graph_.variant()) << ", sequence " << seq << " of length " << eager_.length(seq);
    }
    const WorkCounters& expected = eager_.last_work();
    const WorkCounters& actual = graph_.last_work();
    EXPECT_EQ(actual.rows, expected.rows);
    EXPECT_EQ(actual.kv_projection_rows, expected.kv_projection_rows);
    EXPECT_EQ(actual.attention_dots, expected.attention_dots);
    EXPECT_EQ(actual.attention_dots_newest_row, expected.attention_dots_newest_row);
    EXPECT_EQ(actual.gemm_flops, expected.gemm_flops);
    EXPECT_EQ(actual.attention_flops, expected.attention_flops);
    EXPECT_EQ(actual.weight_bytes, expected.weight_bytes);
    EXPECT_EQ(actual.kv_read_bytes, expected.kv_read_bytes);
    EXPECT_EQ(actual.kv_write_bytes, expected.kv_write_bytes);
    EXPECT_EQ(graph_.workspace_bytes(), eager_.workspace_bytes());
  }

  Decoder eager_;
  Decoder graph_;
};

TEST(SpecS19, AGraphGivesWhatEagerGivesInEveryVariant) {
  for (const char* name : {"llama-gqa", "qwen3-gqa", "gpt2"}) {
    const GoldenModel golden = load_golden(name);
    const ModelConfig& config = golden.checkpoint.config;
    for (const Variant& variant : every_variant({}, config.n_heads, config.n_kv_heads)) {
      Transformer transformer(test_operations(), golden.checkpoint.weights, variant);
      Pair pair(transformer, variant, 1, 64);
      pair.prefill({golden.prompt});
      for (int step = 0; step < 3; ++step) pair.decode();
    }
  }
}

TEST(SpecS19, OneRecordingServesLengthsAcrossPageEdges) {
  const GoldenModel golden = load_golden("llama-gqa");
  for (const CacheKind cache : {CacheKind::contiguous, CacheKind::paged, CacheKind::qkv}) {
    for (const AttentionKind attention : {AttentionKind::naive, AttentionKind::fused}) {
      Variant variant;
      variant.cache = cache;
      variant.decode_attention = attention;
      Transformer transformer(test_operations(), golden.checkpoint.weights, variant);
      Pair pair(transformer, variant, 1, 64);
      pair.prefill({{golden.prompt.begin(), golden.prompt.begin() + 13}});
      for (int length = 14; length <= 34; ++length) pair.decode();  // page size 16
      EXPECT_EQ(pair.n_recorded(), 2) << "a prefill and a decode step";
    }
  }
}

TEST(SpecS19, RaggedBatchesAndSequencesThatStartAnew) {
  const GoldenModel golden = load_golden("llama-gqa");
  const auto prompt = [&](std::ptrdiff_t first, std::ptrdiff_t n) {
    return std::vector<std::int32_t>(golden.prompt.begin() + first, golden.prompt.begin() + first + n);
  };
  for (const CacheKind cache : {CacheKind::none, CacheKind::contiguous, CacheKind::paged}) {
    for (const PruneKind prune : {PruneKind::none, PruneKind::last_layer}) {
      Variant variant;
      variant.cache = cache;
      variant.prune = prune;
      variant.prefill_chunk = cache == CacheKind::none ? 0 : 7;
      Transformer transformer(test_operations(), golden.checkpoint.weights, variant);
      Pair pair(transformer, variant, 4, 64);
      pair.prefill({prompt(0, 1), prompt(0, 15), prompt(5, 16), prompt(2, 30)});
      for (int step = 0; step < 3; ++step) pair.decode();
      for (std::int64_t seq = 0; seq < 4; ++seq) pair.release(seq);
      pair.prefill({prompt(3, 9), prompt(1, 2), prompt(0, 32), prompt(9, 1)});
      for (int step = 0; step < 2; ++step) pair.decode();
    }
  }
}

TEST(SpecS19, AStepIsRecordedAnewWhenItsBuffersMoved) {
  const GoldenModel golden = load_golden("llama-gqa");
  Transformer transformer(test_operations(), golden.checkpoint.weights, {});
  Pair pair(transformer, {}, 1, 64);
  pair.prefill({{golden.prompt.begin(), golden.prompt.begin() + 5}});
  pair.decode();
  pair.decode();
  EXPECT_EQ(pair.n_recorded(), 2);
  Decoder other(transformer, {}, 4, 64);  // a larger step of another decoder: the shared activations grow
  other.prefill(std::vector<std::vector<std::int32_t>>(4, golden.prompt));
  pair.decode();
  EXPECT_EQ(pair.n_recorded(), 3);
  pair.decode();
  EXPECT_EQ(pair.n_recorded(), 3);
}

TEST(SpecS19, OneRecordingServesLengthsAcrossTheSplitOfFusedAttention) {
  ModelConfig config = small_config();
  config.context_length = 1024;
  const std::shared_ptr<const WeightSource> weights = make_synthetic_weights(config, 1);
  Variant variant;
  variant.cache = CacheKind::paged;
  Transformer transformer(test_operations(), weights, variant);
  const auto prompt = [](std::int32_t n) {
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < n; ++i) ids.push_back(i * 37 % 97);
    return ids;
  };
  Decoder longer(transformer, variant, 1, 600);  // from here on the table of rotations has its size
  longer.prefill(std::vector<std::vector<std::int32_t>>{prompt(600)});
  for (const std::int32_t length : {253, 509}) {
    Pair pair(transformer, variant, 2, 600);
    pair.prefill({prompt(length), {1, 2, 3}});
    for (int step = 0; step < 6; ++step) pair.decode();  // a new split of 256 keys begins on the way
    EXPECT_EQ(pair.n_recorded(), 2);
  }
}

TEST(SpecS19, AnObservedStepRunsOneByOneAndTheGraphGoesOnAfterwards) {
  struct Counter : StepObserver {
    void operation(const OperationRecord& /*record*/) override { ++n; }
    int n = 0;
  };
  const GoldenModel golden = load_golden("llama-gqa");
  Variant variant;
  variant.execution = ExecutionKind::graph;
  Transformer transformer(test_operations(), golden.checkpoint.weights, variant);
  Decoder decoder(transformer, variant, 1, 64);
  decoder.prefill(std::span(&golden.prompt, 1));
  Counter counter;
  std::vector<std::int32_t> tokens = {greedy_choice(decoder.logits(0))};
  decoder.decode(tokens);
  const std::int64_t n_recorded = decoder.n_recorded();
  decoder.observe(&counter);
  for (int step = 0; step < 2; ++step) {
    tokens.push_back(greedy_choice(decoder.logits(0)));
    decoder.decode(std::span(&tokens.back(), 1));
    decoder.observe(nullptr);
  }
  EXPECT_GT(counter.n, 0);
  EXPECT_EQ(decoder.n_recorded(), n_recorded);
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), golden.greedy.begin()));
}

}  // namespace
}  // namespace kvlab::testing
