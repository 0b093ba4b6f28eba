// The memory of a plan against what decoders really held, and the largest plans that fit.
#include "harness/memory_plan.h"

#include <gtest/gtest.h>

#include "harness/accounting.h"
#include "harness/workspace_accounting.h"
#include "model/decoder.h"
#include "tests/harness/shapes.h"
#include "variants/registry.h"

namespace kvlab {
namespace {

/// Long enough for keys to be split over threads, and for chunks to leave a remainder.
ModelConfig long_odd_gqa() {
  ModelConfig config = testing_shapes::odd_gqa();
  config.context_length = 512;
  return config;
}

std::vector<std::vector<std::int32_t>> prompts(std::int64_t batch, std::int64_t n) {
  return std::vector<std::vector<std::int32_t>>(static_cast<std::size_t>(batch),
                                                std::vector<std::int32_t>(static_cast<std::size_t>(n), 3));
}

/// What a decoder holds after the workload: its own workspace, and the KV memory when its regions or pages are full.
struct Held {
  std::int64_t workspace_bytes;
  std::int64_t kv_bytes;
};

Held held_by_a_decoder(const ModelConfig& config, const Variant& variant, const Workload& workload, int threads) {
  const std::shared_ptr<const WeightSource> weights = make_synthetic_weights(config, 1);
  Transformer transformer(make_cpu_operations(threads), weights, variant);
  const std::int64_t capacity = workload.depth + workload.prompt_tokens + workload.gen_tokens - 1;
  Decoder decoder(transformer, variant, workload.batch, std::max(capacity, variant.kv_capacity));
  if (workload.depth > 0) decoder.prefill(prompts(workload.batch, workload.depth));
  decoder.prefill(prompts(workload.batch, workload.prompt_tokens));
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(workload.batch), 3);
  for (std::int64_t i = 1; i < workload.gen_tokens; ++i) decoder.decode(ids);
  return {decoder.workspace_bytes(), decoder.kv().reserved_bytes + decoder.kv().table_bytes};
}

Variant with(std::initializer_list<std::pair<const char*, const char*>> settings) {
  Variant variant;
  for (const auto& [axis, value] : settings) find_axis(axis).set(variant, value);
  return variant;
}

std::vector<Variant> variants() {
  std::vector<Variant> list;
  for (const char* cache : {"none", "contiguous", "paged", "qkv"}) {
    for (const char* prune : {"none", "last_layer"}) {
      for (const char* chunk : {"0", "7"}) {
        list.push_back(with({{"cache", cache}, {"prune", prune}, {"prefill_chunk", chunk}}));
        list.push_back(with({{"cache", cache}, {"prune", prune}, {"prefill_chunk", chunk}, {"attention", "naive"}}));
      }
    }
  }
  list.push_back(with({{"logits", "all"}}));
  list.push_back(with({{"logits", "all"}, {"prune", "last_layer"}, {"prefill_chunk", "4"}}));
  list.push_back(with({{"heads", "mha"}, {"prefill_attention", "naive"}}));
  list.push_back(with({{"heads", "mqa"}, {"decode_attention", "naive"}, {"projection", "separate"}}));
  list.push_back(with({{"weight_dtype", "bf16"}, {"kv_dtype", "bf16"}, {"kv_capacity", "60"}}));
  return list;
}

void expect_plan_is_what_is_held(const ModelConfig& config, const Workload& workload, int threads) {
  const std::unique_ptr<Operations> ops = make_cpu_operations(threads);
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(config.name + ": " + variant_label(variant));
    const Held held = held_by_a_decoder(config, variant, workload, threads);
    EXPECT_EQ(workspace_bytes(reheaded_config(config, variant), variant, workload, *ops), held.workspace_bytes);
    const std::int64_t tokens = workload.depth + workload.prompt_tokens + workload.gen_tokens - 1;
    EXPECT_EQ(plan_memory(config, variant, tokens, workload.batch, *ops).kv_bytes, held.kv_bytes);
  }
}

TEST(SpecS25, PlannedWorkspaceAndCacheAreThoseOfADecoder) {
  ModelConfig windowed = testing_shapes::odd_gqa();
  windowed.sliding_window = 5;
  ModelConfig single_layer = testing_shapes::odd_gqa();
  single_layer.n_layers = 1;
  for (const ModelConfig& config : {testing_shapes::toy(), testing_shapes::odd_gqa(), windowed, single_layer}) {
    for (const Workload& workload : {Workload{1, 0, 1, 1}, Workload{1, 0, 16, 3}, Workload{3, 9, 5, 2}}) {
      expect_plan_is_what_is_held(config, workload, 1);
    }
  }
}

TEST(SpecS25, PlannedWorkspaceOfKeysThatAreSplitOverThreads) {
  expect_plan_is_what_is_held(long_odd_gqa(), {2, 0, 290, 2}, 3);
}

TEST(MemoryPlan, ATiedEmbeddingIsHeldTwiceOnTheCpu) {
  const ModelConfig toy = testing_shapes::toy();
  const std::unique_ptr<Operations> ops = make_cpu_operations(1);
  EXPECT_EQ(held_weight_bytes(toy, {}, *ops), (parameter_count(toy) + 12 * 4) * 4);
  const ModelConfig untied = testing_shapes::llama_8b();
  EXPECT_EQ(held_weight_bytes(untied, {}, *ops), parameter_count(untied) * 4);
}

TEST(MemoryPlan, TheLargestBatchAndContextFitAndOneMoreDoesNot) {
  const ModelConfig config = long_odd_gqa();
  const std::unique_ptr<Operations> ops = make_cpu_operations(1);
  for (const char* cache : {"none", "contiguous", "paged"}) {
    const Variant variant = with({{"cache", cache}});
    SCOPED_TRACE(cache);
    for (const std::int64_t memory_bytes : {200'000, 1'000'000, 5'000'000}) {
      const auto fits = [&](std::int64_t context, std::int64_t batch) {
        return plan_memory(config, variant, context, batch, *ops).total_bytes() <= memory_bytes;
      };
      const std::int64_t batch = largest_batch(config, variant, 100, memory_bytes, *ops);
      EXPECT_TRUE(batch == 0 || fits(100, batch));
      EXPECT_FALSE(fits(100, batch + 1));
      const std::int64_t context = largest_context(config, variant, 2, memory_bytes, *ops);
      EXPECT_TRUE(context == 0 || fits(context, 2));
      EXPECT_TRUE(context == config.context_length || !fits(context + 1, 2));
    }
    EXPECT_EQ(largest_batch(config, variant, 1, 1000, *ops), 0) << "the weights alone are more";
    EXPECT_EQ(largest_context(config, variant, 1, std::int64_t{1} << 40, *ops), config.context_length);
  }
}

}  // namespace
}  // namespace kvlab
