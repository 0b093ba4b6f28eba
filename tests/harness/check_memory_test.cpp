// What checks hold, in numbers worked out by hand, and when a reference has to be split.
#include "harness/check_memory.h"

#include <gtest/gtest.h>

#include "harness/output_check.h"
#include "harness/shape_backend.h"
#include "tests/harness/shapes.h"

namespace kvlab {
namespace {

constexpr std::int64_t kGb = 1'000'000'000;

/// Of llama-3.1-8b in bf16: K and V of a token take 128 KiB, and twice that in f32.
Case large_case(std::int64_t batch, std::int64_t depth) {
  Case spec;
  spec.variant.weight_dtype = DType::bf16;
  spec.variant.kv_dtype = DType::bf16;
  spec.workload = {batch, depth - 1, 1, 2, KvFill::random};
  return spec;
}

Case reference_of(const Case& spec) { return reference_case(spec, testing_shapes::llama_8b()); }

std::int64_t bytes(const Case& spec, std::int64_t limit = 1000 * kGb) {
  return run_bytes(spec, testing_shapes::llama_8b(), *make_shape_operations(), limit);
}

TEST(CheckMemory, AReferenceHoldsTwiceTheKvOfABf16Case) {
  const Case spec = large_case(8, 65536);
  constexpr std::int64_t kOwnKv = std::int64_t{8} * 65537 * 128 * 1024;
  EXPECT_GE(bytes(spec), kOwnKv);
  EXPECT_LT(bytes(spec), kOwnKv + kGb / 10);  // one row a sequence
  EXPECT_GE(bytes(reference_of(spec)), 2 * kOwnKv);
  EXPECT_LT(bytes(reference_of(spec)), 2 * kOwnKv + kGb / 10);
}

TEST(CheckMemory, ItIsSplitWhereItDoesNotFitAndTheCaseDoes) {
  const auto ops = make_shape_operations();
  const ModelConfig config = testing_shapes::llama_8b();
  constexpr std::int64_t kLeft = 130 * kGb;  // of a GPU with 146 GB, beside the weights
  for (const auto& [batch, depth] : {std::pair{8, 65536}, std::pair{64, 8192}}) {
    const Case spec = large_case(batch, depth);
    EXPECT_TRUE(splits_reference(reference_of(spec), config, *ops, kLeft));
    EXPECT_EQ(checked_run_bytes(spec, config, *ops, kLeft), bytes(spec));
    EXPECT_FALSE(splits_reference(reference_of(spec), config, *ops, 140 * kGb));
    EXPECT_EQ(checked_run_bytes(spec, config, *ops, 140 * kGb), bytes(reference_of(spec)));
  }
}

TEST(CheckMemory, OneSequenceThatDoesNotFitIsCounted) {
  const auto ops = make_shape_operations();
  const Case spec = large_case(1, 131000);
  const std::int64_t left = bytes(spec) + kGb;
  EXPECT_FALSE(splits_reference(reference_of(spec), testing_shapes::llama_8b(), *ops, left));
  EXPECT_GT(checked_run_bytes(spec, testing_shapes::llama_8b(), *ops, left), left);
}

TEST(CheckMemory, ABatchBeyondTheLimitIsNotTakenThroughItsPasses) {
  const Case spec = large_case(std::int64_t{1} << 40, 10);
  EXPECT_EQ(bytes(spec, kGb), (std::int64_t{1} << 40) * 11 * 128 * 1024);
}

}  // namespace
}  // namespace kvlab
