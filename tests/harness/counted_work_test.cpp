// Three counts of the same work, equal to the last unit: plain loops that count each multiply-add and each byte they
// touch, the CPU backend's own counters, and the table of formulas; by operation, phase and variant.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/accounting.h"
#include "model/decoder.h"
#include "model/weight_source.h"
#include "tests/harness/counting_operations.h"
#include "tests/harness/shapes.h"
#include "variants/registry.h"

namespace kvlab {
namespace {

using testing::CountingOperations;
using testing::OperationCount;
using testing::PhaseCount;

constexpr std::int64_t kSteps = 3;

struct Combination {
  std::string name;
  ModelConfig config;
  Variant variant;
  std::vector<std::int64_t> prompts;  // tokens of each sequence
};

/// GPT-2: biases everywhere, learned positions, a width that is not that of its heads.
ModelConfig odd_gpt2() {
  ModelConfig config = testing_shapes::odd_gqa();
  config.name = "odd-gpt2";
  config.architecture = "gpt2";
  config.family = Family::gpt2;
  config.n_heads = 4;
  config.n_kv_heads = 4;
  config.head_dim = 4;
  config.hidden = 12;
  config.ffn_hidden = 26;
  config.qkv_bias = false;
  config.qk_norm = false;
  config.tied_embedding = true;
  return config;
}

/// Caches and chunks, crossed with what the last layer and the LM head compute and how Q, K and V are projected.
std::vector<Variant> variants_of_a_shape() {
  std::vector<Variant> variants;
  for (const CacheKind cache : {CacheKind::none, CacheKind::contiguous, CacheKind::paged, CacheKind::qkv}) {
    for (const std::int64_t chunk : {0, 3}) {
      if (cache == CacheKind::none && chunk > 0) continue;
      for (const int choice : {0, 1, 2, 3}) {
        Variant variant;
        variant.cache = cache;
        variant.prefill_chunk = chunk;
        variant.page_size = 4;
        if (choice == 1) variant.prune = PruneKind::last_layer;
        if (choice == 2) variant.logits = LogitsKind::all;
        if (choice == 3) variant.projection = ProjectionKind::separate;
        variants.push_back(variant);
      }
    }
  }
  return variants;
}

std::vector<Combination> combinations() {
  ModelConfig windowed = testing_shapes::odd_gqa();
  windowed.name = "odd-window";
  windowed.sliding_window = 5;
  struct Shape {
    ModelConfig config;
    HeadsKind heads;
  };
  const std::vector<Shape> shapes = {{testing_shapes::odd_gqa(), HeadsKind::model},
                                     {testing_shapes::odd_gqa(), HeadsKind::mha},
                                     {testing_shapes::odd_gqa(), HeadsKind::mqa},
                                     {windowed, HeadsKind::model},
                                     {odd_gpt2(), HeadsKind::model}};
  std::vector<Combination> list;
  for (const Shape& shape : shapes) {
    for (Variant variant : variants_of_a_shape()) {
      variant.heads = shape.heads;
      for (const std::vector<std::int64_t>& prompts : {std::vector<std::int64_t>{9}, {7, 1, 10}}) {
        list.push_back({"", shape.config, variant, prompts});
      }
    }
  }
  Variant bf16;
  bf16.weight_dtype = DType::bf16;
  bf16.kv_dtype = DType::bf16;
  list.push_back({"", testing_shapes::odd_gqa(), bf16, {8, 8}});
  for (Combination& c : list) {
    c.name = fmt::format("{} {} chunk {} logits {} projection {} with {} sequences", c.config.name,
                         variant_label(c.variant), c.variant.prefill_chunk, static_cast<int>(c.variant.logits),
                         static_cast<int>(c.variant.projection), c.prompts.size());
  }
  return list;
}

/// A prefill and kSteps decode steps with fixed tokens. `after_phase(phase, decoder)`: 0 is the prefill.
template <typename AfterPhase>
void run(const Combination& c, std::shared_ptr<Operations> ops, const AfterPhase& after_phase) {
  const std::shared_ptr<WeightSource> weights = make_synthetic_weights(c.config, 5);
  Transformer transformer(std::move(ops), weights, c.variant);
  Decoder decoder(transformer, c.variant, static_cast<std::int64_t>(c.prompts.size()), 16);
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::int64_t n : c.prompts) {
    std::vector<std::int32_t>& prompt = prompts.emplace_back();
    for (std::int64_t i = 0; i < n; ++i) prompt.push_back(static_cast<std::int32_t>((7 * i + n) % 31));
  }
  decoder.prefill(prompts);
  after_phase(std::int64_t{0}, decoder);
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    decoder.decode(std::vector<std::int32_t>(c.prompts.size(), static_cast<std::int32_t>(step)));
    after_phase(step, decoder);
  }
}

struct FormulaOfPhase {
  std::map<Operation, OperationCount> operations;  // Q counted with K and V; only what is not all zero
  WorkCounters sums;
};

FormulaOfPhase formula_of_phase(const Combination& c, std::int64_t phase) {
  const ModelConfig config = reheaded_config(c.config, c.variant);
  std::vector<PromptGroup> prompts;
  for (const std::int64_t n : c.prompts) prompts.push_back({1, 0, n});
  const auto passes =
      phase == 0 ? prefill_passes(c.variant, prompts) : std::vector(1, decode_pass(c.variant, prompts, phase));
  FormulaOfPhase formula;
  for (const std::vector<SequenceRows>& pass : passes) {
    const std::vector<OperationWork> table = pass_operations(config, c.variant, pass);
    add_pass(formula.sums, table);
    for (const OperationWork& work : table) {
      const bool is_q = work.operation == Operation::q_projection;
      OperationCount& count = formula.operations[is_q ? Operation::kv_projection : work.operation];
      count.flops += work.flops;
      count.weight_bytes += work.weight_bytes;
      count.kv_read_bytes += work.kv_read_bytes;
      count.kv_write_bytes += work.kv_write_bytes;
    }
  }
  return formula;
}

void expect_operations_equal(std::map<Operation, OperationCount> counted, std::map<Operation, OperationCount> formula,
                             const std::string& what) {
  for (int i = 0; i <= static_cast<int>(Operation::lm_head); ++i) {
    const auto operation = static_cast<Operation>(i);
    const OperationCount& a = counted[operation];
    const OperationCount& b = formula[operation];
    const std::string where = fmt::format("{}, {}", what, operation_name(operation));
    EXPECT_EQ(a.flops, b.flops) << where;
    EXPECT_EQ(a.weight_bytes, b.weight_bytes) << where;
    EXPECT_EQ(a.kv_read_bytes, b.kv_read_bytes) << where;
    EXPECT_EQ(a.kv_write_bytes, b.kv_write_bytes) << where;
  }
}

void expect_sums_equal(const WorkCounters& counted, const WorkCounters& formula, const std::string& what) {
  EXPECT_EQ(counted.rows, formula.rows) << what;
  EXPECT_EQ(counted.kv_projection_rows, formula.kv_projection_rows) << what;
  EXPECT_EQ(counted.attention_dots, formula.attention_dots) << what;
  EXPECT_EQ(counted.attention_dots_newest_row, formula.attention_dots_newest_row) << what;
  EXPECT_EQ(counted.gemm_flops, formula.gemm_flops) << what;
  EXPECT_EQ(counted.attention_flops, formula.attention_flops) << what;
  EXPECT_EQ(counted.weight_bytes, formula.weight_bytes) << what;
  EXPECT_EQ(counted.kv_read_bytes, formula.kv_read_bytes) << what;
  EXPECT_EQ(counted.kv_write_bytes, formula.kv_write_bytes) << what;
}

TEST(CountedWork, LoopsThatCountEqualTheFormulasOperationByOperation) {
  const std::vector<Combination> list = combinations();
  EXPECT_GE(list.size(), 40U);
  for (const Combination& c : list) {
    const auto counting = std::make_shared<CountingOperations>(reheaded_config(c.config, c.variant));
    const bool cached = c.variant.cache != CacheKind::none;
    run(c, counting, [&](std::int64_t phase, const Decoder&) {
      const std::string what = fmt::format("{}, phase {}", c.name, phase);
      const PhaseCount counted = counting->take();
      const FormulaOfPhase formula = formula_of_phase(c, phase);
      expect_operations_equal(counted.operations, formula.operations, what);
      EXPECT_EQ(counted.rows, formula.sums.rows) << what;
      EXPECT_EQ(counted.appended_rows, cached ? formula.sums.kv_projection_rows : 0) << what;
      EXPECT_EQ(counted.attention_dots, formula.sums.attention_dots) << what;
      EXPECT_EQ(counted.attention_dots_newest_row, formula.sums.attention_dots_newest_row) << what;
      EXPECT_EQ(counted.rows_never_stored > 0, !cached) << what;
    });
  }
}

TEST(CountedWork, TheCpuBackendsCountersEqualTheFormulas) {
  const std::shared_ptr<Operations> cpu = make_cpu_operations(1);
  for (const Combination& c : combinations()) {
    run(c, cpu, [&](std::int64_t phase, const Decoder& decoder) {
      expect_sums_equal(decoder.last_work(), formula_of_phase(c, phase).sums,
                        fmt::format("{}, phase {}", c.name, phase));
    });
  }
}

/// The counting loops compute what the CPU backend computes: otherwise their counts would be of something else.
TEST(CountedWork, TheLoopsThatCountGiveTheSameLogits) {
  const std::shared_ptr<Operations> cpu = make_cpu_operations(1);
  for (const Combination& c : combinations()) {
    if (c.variant.weight_dtype != DType::f32 || c.variant.prefill_chunk > 0) continue;
    std::vector<float> expected;
    const auto append_logits = [&](std::vector<float>& to, const Decoder& decoder) {
      for (std::int64_t seq = 0; seq < decoder.n_seqs(); ++seq) {
        to.insert(to.end(), decoder.logits(seq).begin(), decoder.logits(seq).end());
      }
    };
    run(c, cpu, [&](std::int64_t, const Decoder& decoder) { append_logits(expected, decoder); });
    std::vector<float> counted;
    run(c, std::make_shared<CountingOperations>(reheaded_config(c.config, c.variant)),
        [&](std::int64_t, const Decoder& decoder) { append_logits(counted, decoder); });
    ASSERT_EQ(counted.size(), expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < counted.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(counted[i]) - static_cast<double>(expected[i])));
    }
    // f32 against f64 sums over at most 60 terms of order one, through 3 layers.
    EXPECT_TRUE(worst <= 1e-3) << c.name << ": " << worst;
  }
}

}  // namespace
}  // namespace kvlab
