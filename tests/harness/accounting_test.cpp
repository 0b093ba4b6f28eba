// The published counts, to the last unit, from the formulas. The counters are held against the same formulas in
// tests/model and at every run.
#include "harness/accounting.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/error.h"
#include "tests/harness/shapes.h"

namespace kvlab {
namespace {

using testing_shapes::llama_7b;
using testing_shapes::llama_8b;
using testing_shapes::toy;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Variant with_cache(CacheKind cache) {
  Variant variant;
  variant.cache = cache;
  return variant;
}

Variant sixteen_bits() {
  Variant variant;
  variant.weight_dtype = DType::bf16;
  variant.kv_dtype = DType::bf16;
  return variant;
}

Workload prompt_and_gen(std::int64_t prompt, std::int64_t gen) { return {1, 0, prompt, gen}; }

WorkCounters whole_run(const ModelConfig& config, const Variant& variant, const Workload& workload) {
  WorkCounters work = prefill_work(config, variant, workload);
  work += decode_work(config, variant, workload);
  return work;
}

std::int64_t flops(const WorkCounters& work) { return work.gemm_flops + work.attention_flops; }

/// FLOPs of one row through all layers, attention and LM head apart (SPEC S22's A).
std::int64_t linear_flops_a_row(const ModelConfig& c) {
  const std::int64_t matrices = c.family == Family::gpt2 ? 2 : 3;
  return c.n_layers * 2 *
         (c.hidden * (c.n_heads + 2 * c.n_kv_heads) * c.head_dim + c.n_heads * c.head_dim * c.hidden +
          matrices * c.hidden * c.ffn_hidden);
}

TEST(SpecS12, RowsPerStepAfterAFourTokenPrompt) {
  const Workload workload = prompt_and_gen(4, 4);
  const Variant none = with_cache(CacheKind::none);
  const Variant cached = with_cache(CacheKind::contiguous);
  EXPECT_EQ(prefill_work(toy(), none, workload).rows, 4);
  EXPECT_EQ(prefill_work(toy(), cached, workload).rows, 4);
  for (std::int64_t i = 1; i < 4; ++i) {
    EXPECT_EQ(decode_step_work(toy(), none, workload, i).rows, 4 + i);
    EXPECT_EQ(decode_step_work(toy(), cached, workload, i).rows, 1);
  }
}

TEST(SpecS12, PositionFiftyOneProjectsOneRowAndSeesFiftyOlderOnes) {
  const Workload workload = prompt_and_gen(50, 2);
  const Variant cached = with_cache(CacheKind::contiguous);
  EXPECT_EQ(prefill_work(toy(), cached, workload).rows, 50);
  const WorkCounters step = decode_step_work(toy(), cached, workload, 1);
  EXPECT_EQ(step.kv_projection_rows, 1);
  EXPECT_EQ(step.attention_dots[0], 50 + 1);
  EXPECT_EQ(step.kv_read_bytes, 3 * (50 + 1) * 2 * 2 * 2 * 4);
}

TEST(SpecS12, CachedStepCostsOneNthInProjectionsAndMlp) {
  for (const std::int64_t length : {2, 7, 100, 1000}) {
    const Workload workload = prompt_and_gen(length - 1, 2);
    const std::int64_t head = 2 * 4 * 12;
    const auto recomputed = decode_step_work(toy(), with_cache(CacheKind::none), workload, 1).gemm_flops - head;
    const auto cached = decode_step_work(toy(), with_cache(CacheKind::paged), workload, 1).gemm_flops - head;
    EXPECT_EQ(recomputed, length * cached);
  }
}

TEST(SpecS14, AttentionShareOfLongPrompts) {
  const auto share = [](std::int64_t prompt) {
    const WorkCounters work = prefill_work(llama_8b(), sixteen_bits(), prompt_and_gen(prompt, 1));
    return 100.0 * static_cast<double>(work.attention_flops) / static_cast<double>(flops(work));
  };
  EXPECT_NEAR(share(512), 1.0, 0.05);
  EXPECT_NEAR(share(4096), 7.1, 0.05);
  EXPECT_NEAR(share(32768), 38, 0.5);
  EXPECT_NEAR(share(128000), 71, 0.5);
}

TEST(SpecS15, KvBytesOfLlama8b) {
  const Variant variant = sixteen_bits();
  EXPECT_EQ(kv_reserved_bytes(llama_8b(), variant, 1, 1), 131072);
  EXPECT_EQ(kv_reserved_bytes(llama_8b(), variant, 1, 4096), 512 * (kGiB / 1024));
  EXPECT_EQ(kv_reserved_bytes(llama_8b(), variant, 1, 128000), 15 * kGiB + kGiB * 5 / 8);
  EXPECT_EQ(kv_reserved_bytes(llama_8b(), variant, 1, 131072), 16 * kGiB);
  EXPECT_EQ(kv_reserved_bytes(llama_8b(), variant, 32, 4096), 17179869184);
}

TEST(SpecS15, WeightBytesOfLlama8b) {
  EXPECT_EQ(parameter_count(llama_8b()), 8030261248);
  EXPECT_EQ(stored_weight_bytes(llama_8b(), sixteen_bits()), 16060522496);
}

TEST(SpecS15, MhaTakesFourTimesTheCache) {
  Variant mha = sixteen_bits();
  mha.heads = HeadsKind::mha;
  EXPECT_EQ(reheaded_config(llama_8b(), mha).n_kv_heads, 32);
  EXPECT_EQ(kv_reserved_bytes(llama_8b(), mha, 1, 1), 524288);
  EXPECT_EQ(kv_reserved_bytes(llama_8b(), mha, 1, 4096), 2 * kGiB);
  EXPECT_EQ(kv_reserved_bytes(llama_7b(), sixteen_bits(), 1, 1), 524288);
}

TEST(SpecS15, PagesRoundUpAndNoCacheTakesNothing) {
  Variant paged = with_cache(CacheKind::paged);
  paged.page_size = 16;
  const std::int64_t token = kv_reserved_bytes(toy(), with_cache(CacheKind::contiguous), 1, 1);
  EXPECT_EQ(token, 2 * 3 * 2 * 2 * 4);
  EXPECT_EQ(kv_reserved_bytes(toy(), paged, 3, 16), 3 * 16 * token);
  EXPECT_EQ(kv_reserved_bytes(toy(), paged, 3, 17), 3 * 32 * token);
  EXPECT_EQ(kv_reserved_bytes(toy(), paged, 1, 0), 0);
  EXPECT_EQ(kv_reserved_bytes(toy(), with_cache(CacheKind::none), 3, 17), 0);
}

TEST(SpecS16, OneTokenPromptThousandGenerated) {
  const Workload workload = prompt_and_gen(1, 1000);
  const WorkCounters none = whole_run(toy(), with_cache(CacheKind::none), workload);
  const WorkCounters cached = whole_run(toy(), with_cache(CacheKind::contiguous), workload);
  Variant pruned = with_cache(CacheKind::none);
  pruned.prune = PruneKind::last_layer;
  const WorkCounters recomputed_pruned = whole_run(toy(), pruned, workload);

  using Layers = std::vector<std::int64_t>;
  EXPECT_EQ(none.kv_projection_rows, 500500);
  EXPECT_EQ(cached.kv_projection_rows, 1000);
  EXPECT_EQ(none.attention_dots_newest_row, Layers(3, 500500));
  EXPECT_EQ(cached.attention_dots_newest_row, Layers(3, 500500));
  EXPECT_EQ(none.attention_dots, Layers(3, 167167000));
  EXPECT_EQ(cached.attention_dots, Layers(3, 500500));
  EXPECT_EQ(recomputed_pruned.attention_dots, (Layers{167167000, 167167000, 500500}));
  EXPECT_EQ(recomputed_pruned.kv_projection_rows, 500500);
}

TEST(SpecS17, HundredTokenPromptFiveHundredGenerated) {
  const Workload workload = prompt_and_gen(100, 500);
  const WorkCounters none = whole_run(toy(), with_cache(CacheKind::none), workload);
  const WorkCounters cached = whole_run(toy(), with_cache(CacheKind::contiguous), workload);
  EXPECT_EQ(none.kv_projection_rows, 174750);
  EXPECT_EQ(cached.kv_projection_rows, 599);
  EXPECT_EQ(none.attention_dots[0], 35833250);
  EXPECT_EQ(cached.attention_dots[0], 179700);
}

TEST(SpecS17, FlopsOfRecomputingInClosedForm) {
  for (const ModelConfig& config : {toy(), llama_8b(), llama_7b()}) {
    const std::int64_t a = linear_flops_a_row(config);
    const std::int64_t b = 4 * config.n_heads * config.head_dim * config.n_layers;
    const std::int64_t head = 2 * config.hidden * config.vocab_size;
    const WorkCounters none = whole_run(config, with_cache(CacheKind::none), prompt_and_gen(100, 500));
    EXPECT_EQ(flops(none), a * 174750 + b * 35833250 + head * 500) << config.name;
  }
}

TEST(SpecS18, KeepingQCostsBytesAndNothingReadsThem) {
  struct Row {
    std::int64_t n_heads, n_kv_heads;
    double factor;
  };
  for (const Row& row : {Row{32, 32, 1.5}, Row{9, 3, 2.5}, Row{32, 8, 3.0}}) {
    ModelConfig config = llama_8b();
    config.n_heads = row.n_heads;
    config.n_kv_heads = row.n_kv_heads;
    const auto kv = static_cast<double>(kv_reserved_bytes(config, with_cache(CacheKind::contiguous), 1, 10));
    EXPECT_EQ(static_cast<double>(kv_reserved_bytes(config, with_cache(CacheKind::qkv), 1, 10)), row.factor * kv);

    const Workload workload = prompt_and_gen(5, 3);
    const WorkCounters plain = whole_run(config, with_cache(CacheKind::contiguous), workload);
    const WorkCounters with_q = whole_run(config, with_cache(CacheKind::qkv), workload);
    EXPECT_EQ(with_q.kv_read_bytes, plain.kv_read_bytes);
    EXPECT_EQ(static_cast<double>(with_q.kv_write_bytes), row.factor * static_cast<double>(plain.kv_write_bytes));
    EXPECT_EQ(flops(with_q), flops(plain));
  }
}

TEST(SpecS22, ToyFlops) {
  const Workload workload = prompt_and_gen(5, 2);
  Variant all;
  all.logits = LogitsKind::all;
  EXPECT_EQ(flops(prefill_work(toy(), {}, workload)), 4656);
  EXPECT_EQ(flops(prefill_work(toy(), all, workload)), 5040);
  EXPECT_EQ(flops(decode_step_work(toy(), {}, workload, 1)), 1152);
}

TEST(SpecS22, Llama8bPrefillFlops) {
  EXPECT_EQ(flops(prefill_work(llama_8b(), sixteen_bits(), prompt_and_gen(4096, 1))), 61574775570432);
}

TEST(SpecS22, Llama8bDecodeBytes) {
  const WorkCounters step = decode_step_work(llama_8b(), sixteen_bits(), prompt_and_gen(4095, 2), 1);
  EXPECT_EQ(step.weight_bytes, 15009857536);
  EXPECT_EQ(step.kv_read_bytes, 536870912);
  EXPECT_EQ(step.kv_write_bytes, 131072);
}

TEST(Accounting, RefusesInsteadOfWrapping) {
  const Workload workload = prompt_and_gen(std::int64_t{1} << 40, 1);
  EXPECT_THROW(prefill_work(llama_8b(), {}, workload), InputError);
  EXPECT_THROW(kv_reserved_bytes(llama_8b(), {}, std::numeric_limits<std::int64_t>::max(), 4096), InputError);
  EXPECT_THROW(prefill_work(toy(), {}, Workload{0, 0, 5, 1}), InputError);
  EXPECT_THROW(prefill_work(toy(), {}, Workload{1, -1, 5, 1}), InputError);
  EXPECT_THROW(prefill_work(toy(), {}, Workload{1, 0, 0, 1}), InputError);
}

TEST(Accounting, NoDecodeStepsAfterOneToken) {
  const WorkCounters work = decode_work(toy(), {}, prompt_and_gen(5, 1));
  EXPECT_EQ(work.rows, 0);
  EXPECT_EQ(work.attention_dots, std::vector<std::int64_t>(3, 0));
}

}  // namespace
}  // namespace kvlab
