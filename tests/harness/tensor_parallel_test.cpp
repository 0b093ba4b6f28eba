// A model split over devices: nothing is lost, and what is sent is counted by hand.
#include "harness/tensor_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/accounting.h"
#include "harness/plan.h"
#include "kernels/error.h"
#include "tests/harness/shapes.h"

namespace kvlab {
namespace {

using ::testing::HasSubstr;
using testing_shapes::llama_8b;

TEST(TensorParallel, ShardsAddUpToTheModelAndItsNormsOnceMoreForEach) {
  const std::int64_t norms = (2 * 32 + 1) * 4096;
  for (const std::int64_t gpus : {1, 2, 4, 8}) {
    const ModelConfig shard = shard_config(llama_8b(), gpus);
    EXPECT_EQ(gpus * parameter_count(shard), parameter_count(llama_8b()) + (gpus - 1) * norms) << gpus;
    EXPECT_EQ(gpus * kv_reserved_bytes(shard, {}, 3, 100), kv_reserved_bytes(llama_8b(), {}, 3, 100)) << gpus;
    const Workload workload{2, 0, 10, 2};
    EXPECT_EQ(gpus * prefill_work(shard, {}, workload).gemm_flops, prefill_work(llama_8b(), {}, workload).gemm_flops);
    EXPECT_EQ(gpus * decode_work(shard, {}, workload).attention_flops,
              decode_work(llama_8b(), {}, workload).attention_flops);
  }
}

TEST(TensorParallel, AVocabularyThatDoesNotDivideIsPadded) {
  ModelConfig config = testing_shapes::odd_gqa();  // 31 pieces, 2 KV heads
  EXPECT_EQ(shard_config(config, 2).vocab_size, 16);
}

TEST(TensorParallel, RefusesWhatCannotBeSplitEvenlyAndNamesWhatCan) {
  for (const std::int64_t gpus : {3, 16, 0}) {
    try {
      shard_config(llama_8b(), gpus);
      FAIL() << gpus;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("allowed are 1, 2, 4, 8"));
    }
  }
  Variant mha;
  mha.heads = HeadsKind::mha;
  EXPECT_EQ(shard_config(reheaded_config(llama_8b(), mha), 16).n_kv_heads, 2);
}

TEST(TensorParallel, SentBytesOfADecodeStepByHand) {
  // Two devices: an all-reduce sends every byte once, a gather half of them.
  EXPECT_EQ(sent_bytes(llama_8b(), {}, 1, 1, 2), 65 * 4096 * 4 + 128256 * 4 / 2);
  EXPECT_EQ(sent_bytes(llama_8b(), {}, 1, 1, 1), 0);
  Variant pruned;
  pruned.prune = PruneKind::last_layer;
  EXPECT_EQ(sent_bytes(llama_8b(), pruned, 10, 1, 2), (63 * 10 + 2) * 4096 * 4 + 128256 * 4 / 2);
}

TEST(TensorParallel, APlanAddsTheTimeOfTheLinksOrSaysThatItCannot) {
  Hardware hardware{"round", "made up", 80'000'000'000, 1e12, 1e13, 1e14, 1e11, {}};
  const Plan linked = make_plan(llama_8b(), {}, 4096, 1, {hardware, 4});
  const RooflineTime& time = *linked.storages.at(0).decode.time;
  EXPECT_DOUBLE_EQ(*time.link_s, sent_bytes(llama_8b(), {}, 1, 1, 4) / 1e11);
  EXPECT_DOUBLE_EQ(time.total_s(), time.seconds + *time.link_s);
  EXPECT_LT(time.seconds, make_plan(llama_8b(), {}, 4096, 1, {hardware}).storages.at(0).decode.time->seconds / 3.9);

  hardware.link_bytes_per_s.reset();
  const Plan unknown = make_plan(llama_8b(), {}, 4096, 1, {hardware, 4});
  EXPECT_FALSE(unknown.storages.at(0).decode.time->link_s.has_value());
  EXPECT_THAT(plan_text(unknown), HasSubstr("the datasheet has no link"));
  EXPECT_TRUE(plan_json(unknown)["storage"][0]["decode_step"]["link_s"].is_null());
}

}  // namespace
}  // namespace kvlab
