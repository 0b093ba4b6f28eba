// The formulas against a count that walks every row, key and matrix one by one, over a grid of variants.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/accounting.h"
#include "tests/harness/shapes.h"

namespace kvlab {
namespace {

/// Counts a call (a prefill or a decode step) by walking it. One sequence; a batch repeats it.
class Walk {
 public:
  Walk(const ModelConfig& config, const Variant& variant, std::int64_t batch)
      : c_(config), variant_(variant), batch_(batch) {
    work.attention_dots.resize(static_cast<std::size_t>(c_.n_layers));
    work.attention_dots_newest_row.resize(static_cast<std::size_t>(c_.n_layers));
  }

  /// Positions [begin, end) as one pass; `wants_logits`: of the last row.
  void pass(std::int64_t begin, std::int64_t end, bool wants_logits) {
    std::vector<std::int64_t> all;
    for (std::int64_t p = begin; p < end; ++p) all.push_back(p);
    std::vector<std::int64_t> logit_rows = wants_logits ? std::vector{end - 1} : std::vector<std::int64_t>{};
    if (variant_.logits == LogitsKind::all) logit_rows = all;

    const std::int64_t rows = end - begin;
    work.rows += rows * batch_;
    work.kv_projection_rows += rows * batch_;
    weights(rows * batch_ * c_.hidden * (c_.family == Family::gpt2 ? 2 : 1));
    for (std::int64_t layer = 0; layer < c_.n_layers; ++layer) {
      const bool pruned = layer == c_.n_layers - 1 && variant_.prune == PruneKind::last_layer;
      walk_layer(static_cast<std::size_t>(layer), all, pruned ? logit_rows : all);
    }
    if (logit_rows.empty()) return;
    weights(c_.hidden * (c_.family == Family::gpt2 ? 2 : 1));
    matrix(c_.hidden, c_.vocab_size, static_cast<std::int64_t>(logit_rows.size()));
  }

  WorkCounters work;

 private:
  void walk_layer(std::size_t layer, const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& full) {
    const bool gpt2 = c_.family == Family::gpt2;
    const bool qkv_bias = gpt2 || c_.qkv_bias;
    const std::int64_t q_width = c_.n_heads * c_.head_dim;
    const std::int64_t kv_width = c_.n_kv_heads * c_.head_dim;
    const auto n = static_cast<std::int64_t>(rows.size());
    weights(gpt2 ? 2 * c_.hidden : c_.hidden);  // attention norm
    for (int k_or_v = 0; k_or_v < 2; ++k_or_v) {
      matrix(c_.hidden, kv_width, n);
      if (qkv_bias) weights(kv_width);
    }
    if (c_.qk_norm) weights(c_.head_dim);
    std::int64_t stored = 2 * kv_width;
    if (variant_.cache == CacheKind::qkv && full.size() == rows.size()) stored += q_width;
    if (cached()) work.kv_write_bytes += n * stored * kv_bytes() * batch_;
    if (full.empty()) return;

    attend(layer, full, kv_width);
    const auto m = static_cast<std::int64_t>(full.size());
    matrix(c_.hidden, q_width, m);
    if (qkv_bias) weights(q_width);
    if (c_.qk_norm) weights(c_.head_dim);
    matrix(q_width, c_.hidden, m);
    weights(gpt2 ? 3 * c_.hidden : c_.hidden);  // output bias, MLP norm
    for (int up = 0; up < (gpt2 ? 1 : 2); ++up) matrix(c_.hidden, c_.ffn_hidden, m);
    matrix(c_.ffn_hidden, c_.hidden, m);
    if (gpt2) weights(c_.ffn_hidden + c_.hidden);
  }

  void attend(std::size_t layer, const std::vector<std::int64_t>& queries, std::int64_t kv_width) {
    std::set<std::int64_t> seen;
    for (const std::int64_t query : queries) {
      std::int64_t dots = 0;
      for (std::int64_t key = 0; key <= query; ++key) {
        if (c_.sliding_window > 0 && key <= query - c_.sliding_window) continue;
        ++dots;
        seen.insert(key);
      }
      work.attention_dots[layer] += dots * batch_;
      work.attention_flops += dots * 4 * c_.n_heads * c_.head_dim * batch_;
      if (query == queries.back()) work.attention_dots_newest_row[layer] += dots * batch_;
    }
    if (cached()) work.kv_read_bytes += static_cast<std::int64_t>(seen.size()) * 2 * kv_width * kv_bytes() * batch_;
  }

  void matrix(std::int64_t n_in, std::int64_t n_out, std::int64_t rows) {
    weights(n_in * n_out);
    work.gemm_flops += 2 * n_in * n_out * rows * batch_;
  }

  void weights(std::int64_t elements) {
    work.weight_bytes += elements * static_cast<std::int64_t>(dtype_bytes(variant_.weight_dtype));
  }

  bool cached() const { return variant_.cache != CacheKind::none; }
  std::int64_t kv_bytes() const { return static_cast<std::int64_t>(dtype_bytes(variant_.kv_dtype)); }

  ModelConfig c_;
  Variant variant_;
  std::int64_t batch_;
};

WorkCounters walked_prefill(const ModelConfig& config, const Variant& variant, const Workload& w) {
  Walk walk(config, variant, w.batch);
  const std::int64_t total = w.depth + w.prompt_tokens;
  if (variant.cache == CacheKind::none) {
    walk.pass(0, total, true);
    return walk.work;
  }
  const std::int64_t chunk = variant.prefill_chunk == 0 ? w.prompt_tokens : variant.prefill_chunk;
  for (std::int64_t begin = w.depth; begin < total; begin += chunk) {
    const std::int64_t end = std::min(total, begin + chunk);
    walk.pass(begin, end, end == total);
  }
  return walk.work;
}

WorkCounters walked_decode(const ModelConfig& config, const Variant& variant, const Workload& w) {
  Walk walk(config, variant, w.batch);
  for (std::int64_t i = 1; i < w.gen_tokens; ++i) {
    const std::int64_t length = w.depth + w.prompt_tokens + i;
    walk.pass(variant.cache == CacheKind::none ? 0 : length - 1, length, true);
  }
  return walk.work;
}

void expect_equal(const WorkCounters& formula, const WorkCounters& walked, const std::string& what) {
  EXPECT_EQ(formula.rows, walked.rows) << what;
  EXPECT_EQ(formula.kv_projection_rows, walked.kv_projection_rows) << what;
  EXPECT_EQ(formula.attention_dots, walked.attention_dots) << what;
  EXPECT_EQ(formula.attention_dots_newest_row, walked.attention_dots_newest_row) << what;
  EXPECT_EQ(formula.gemm_flops, walked.gemm_flops) << what;
  EXPECT_EQ(formula.attention_flops, walked.attention_flops) << what;
  EXPECT_EQ(formula.weight_bytes, walked.weight_bytes) << what;
  EXPECT_EQ(formula.kv_read_bytes, walked.kv_read_bytes) << what;
  EXPECT_EQ(formula.kv_write_bytes, walked.kv_write_bytes) << what;
}

/// Caches x prune or all logits x chunks.
std::vector<Variant> grid() {
  std::vector<Variant> variants;
  for (const CacheKind cache : {CacheKind::none, CacheKind::contiguous, CacheKind::paged, CacheKind::qkv}) {
    for (const std::int64_t chunk : {0, 1, 4, 100}) {
      for (const int choice : {0, 1, 2}) {
        Variant variant;
        variant.cache = cache;
        variant.prefill_chunk = chunk;
        variant.kv_dtype = DType::bf16;
        if (choice == 1) variant.prune = PruneKind::last_layer;
        if (choice == 2) variant.logits = LogitsKind::all;
        variants.push_back(variant);
      }
    }
  }
  return variants;
}

class ByRows : public ::testing::TestWithParam<std::int64_t> {};  // the sliding window

TEST_P(ByRows, FormulasEqualAWalk) {
  for (ModelConfig config : {testing_shapes::toy(), testing_shapes::odd_gqa()}) {
    config.sliding_window = GetParam();
    for (const Variant& variant : grid()) {
      for (const Workload& w :
           {Workload{1, 0, 1, 1}, Workload{1, 0, 9, 5}, Workload{3, 0, 10, 4}, Workload{2, 7, 5, 3}}) {
        const std::string what =
            fmt::format("{} cache {} chunk {} prune {} logits {} batch {} depth {} prompt {}", config.name,
                        static_cast<int>(variant.cache), variant.prefill_chunk, static_cast<int>(variant.prune),
                        static_cast<int>(variant.logits), w.batch, w.depth, w.prompt_tokens);
        expect_equal(prefill_work(config, variant, w), walked_prefill(config, variant, w), "prefill " + what);
        expect_equal(decode_work(config, variant, w), walked_decode(config, variant, w), "decode " + what);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, ByRows, ::testing::Values(0, 1, 3, 12, 1000));

TEST(ByRows, ReheadingCountsTheNewHeads) {
  Variant variant;
  for (const HeadsKind heads : {HeadsKind::mha, HeadsKind::mqa}) {
    variant.heads = heads;
    ModelConfig reheaded = testing_shapes::odd_gqa();
    reheaded.n_kv_heads = heads == HeadsKind::mha ? 6 : 1;
    const Workload w{2, 0, 6, 3};
    expect_equal(prefill_work(testing_shapes::odd_gqa(), variant, w), walked_prefill(reheaded, variant, w), "prefill");
    expect_equal(decode_work(testing_shapes::odd_gqa(), variant, w), walked_decode(reheaded, variant, w), "decode");
  }
}

}  // namespace
}  // namespace kvlab
