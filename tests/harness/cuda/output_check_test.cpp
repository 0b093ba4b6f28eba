// The check of a case on a device with little memory: what fits, how its reference goes through, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/local_runner.h"
#include "kernels/cuda_emulation/backend.h"
#include "tests/model/golden_models.h"

namespace kvlab::testing {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr std::int64_t kMb = 1'000'000;

/// A device of so many bytes, and what a check on it says.
CaseOutcome check(std::int64_t memory_bytes, const Case& spec) {
  cuda::emulation::Device device({.counts = false, .memory_bytes = memory_bytes});
  const std::shared_ptr<Operations> ops = cuda::emulation::make_emulated_operations(device);
  LocalRunner runner(ModelSession(load_golden("llama-gqa").checkpoint, ops, 1, 1),
                     {"llama-gqa", "cuda-emulated", 1, 1, ""});
  return runner.check(spec);
}

Case bf16_case(std::int64_t batch, std::int64_t depth) {
  Case spec;
  spec.model = "llama-gqa";
  spec.device = "cuda-emulated";
  spec.variant.weight_dtype = DType::bf16;
  spec.variant.kv_dtype = DType::bf16;
  spec.workload = {batch, depth, 2, 3, KvFill::random};
  return spec;
}

TEST(CudaOutputCheck, ACaseFitsTheDevicesMemoryNotTheHosts) {
  const CaseOutcome outcome = check(3 * kMb, bf16_case(40, 500));
  EXPECT_EQ(outcome.status, Status::skipped);
  EXPECT_THAT(outcome.reason, ContainsRegex("needs [0-9.]+ GB of weights, KV cache and workspace, 0.0 GB available"));
}

TEST(CudaOutputCheck, AReferenceThatIsTooLargeTakesOneSequenceAtATime) {
  const Case spec = bf16_case(3, 400);
  const CaseOutcome whole = check(100 * kMb, spec);
  const CaseOutcome split = check(kMb * 12 / 5, spec);
  ASSERT_EQ(whole.status, Status::ok) << whole.reason;
  ASSERT_EQ(split.status, Status::ok) << split.reason;
  EXPECT_THAT(whole.warnings, ::testing::Not(Contains(HasSubstr("one sequence at a time"))));
  EXPECT_THAT(split.warnings, Contains(HasSubstr("one sequence at a time")));
  EXPECT_EQ(split.output.tokens_sha256, whole.output.tokens_sha256);
}

}  // namespace
}  // namespace kvlab::testing
