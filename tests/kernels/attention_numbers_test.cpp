// Attention where numbers are awkward: large scores, near-equal scores, NaN, counts, wrong calls, far addresses.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_operations.h"
#include "tests/kernels/attention_step.h"
#include "tests/kernels/compare.h"

namespace kvlab {
namespace {

using test::AttentionStep;
using test::Layout;

class AttentionNumbers : public testing::TestWithParam<AttentionKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, AttentionNumbers, testing::Values(AttentionKind::naive, AttentionKind::fused),
                         [](const auto& chosen) { return chosen.param == AttentionKind::naive ? "naive" : "fused"; });

/// Scores of exactly -60000 and -60000 + j: valid, not masked; far below zero at every block.
TEST_P(AttentionNumbers, ScoresNearMinusSixtyThousandAreNotMasked) {
  for (const std::int64_t kv_len : {5, 70, 600}) {
    AttentionStep step(
        {.seqs = {{1, kv_len}}, .n_heads = 1, .n_kv_heads = 1, .head_dim = 2, .layout = Layout::regions});
    step.set_scale(1.0F);
    auto& seq = step.sequences()[0];
    seq.q = {-6000.0F, 1.0F};
    for (std::size_t j = 0; j < static_cast<std::size_t>(kv_len); ++j) {
      seq.k[2 * j] = 10.0F;
      seq.k[2 * j + 1] = static_cast<float>(j % 7);
    }
    step.store();
    step.check(GetParam(), 1, /*exact_scores=*/true);
  }
}

TEST_P(AttentionNumbers, LargePositiveScoresDoNotOverflow) {
  AttentionStep step({.seqs = {{1, 300}}, .n_heads = 1, .n_kv_heads = 1, .head_dim = 1});
  step.set_scale(1.0F);
  auto& seq = step.sequences()[0];
  seq.q = {1000.0F};
  for (std::size_t j = 0; j < 300; ++j) seq.k[j] = static_cast<float>(j);  // the last key takes all
  step.store();
  EXPECT_EQ(step.run(GetParam())[0], seq.v[299]);
}

TEST_P(AttentionNumbers, LongRowOfNearEqualScoresKeepsTheMean) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    AttentionStep step({.seqs = {{1, 8192}}, .n_heads = 2, .n_kv_heads = 1, .head_dim = 4, .dtype = dtype});
    for (float& value : step.sequences()[0].q) value *= 1e-3F;
    step.store();
    step.check(GetParam(), 2);
    auto& seq = step.sequences()[0];
    for (float& value : seq.k) value = 0.25F;
    for (std::size_t i = 0; i < seq.v.size(); ++i) seq.v[i] = i / 4 % 2 == 0 ? 1.0F : 2.0F;
    step.store();
    // All weights equal 1/8192: every sum is a sum of equal powers of two, so the mean comes out exactly.
    for (const float value : step.run(GetParam())) EXPECT_EQ(value, 1.5F);
  }
}

TEST_P(AttentionNumbers, NanReachesExactlyTheRowsThatSeeIt) {
  AttentionStep step({.seqs = {{100, 100}, {1, 50}}, .n_heads = 2, .n_kv_heads = 1, .head_dim = 4});
  step.sequences()[0].k[70 * 4 + 1] = NAN;
  step.store();
  const auto out = step.run(GetParam());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t row = i / 8;
    EXPECT_EQ(std::isnan(out[i]), row >= 70 && row < 100) << "row " << row;
  }
}

TEST_P(AttentionNumbers, WorkIsZeroForAnEmptyStep) {
  AttentionStep step({.seqs = {}});
  EXPECT_TRUE(step.run(GetParam()).empty());
  EXPECT_EQ(step.last_work().dots, 0);
  EXPECT_EQ(step.last_work().dots_newest_row, 0);
}

/// Prompt of one token, 1,000 generated, cached: 500,500 dots, all of the newest row. The whole sequence in one pass
/// is 500,500 as well, and the last row 1,000 of them.
TEST_P(AttentionNumbers, SpecS16DotsOfAThousandSteps) {
  cpu::CpuOperations ops(1);
  AttentionStep step({.seqs = {{1, 1000}}, .head_dim = 2, .layout = Layout::regions});
  std::int64_t dots = 0;
  std::int64_t newest = 0;
  for (std::int64_t kv_len = 1; kv_len <= 1000; ++kv_len) {
    const std::vector<SequenceSpan> span = {{0, 1, kv_len}};
    AttentionArgs args = step.args();
    args.seqs = span;
    const AttentionWork work = ops.attention(GetParam(), args);
    dots += work.dots;
    newest += work.dots_newest_row;
  }
  EXPECT_EQ(dots, 500'500);
  EXPECT_EQ(newest, 500'500);
  AttentionStep prefill({.seqs = {{1000, 1000}}, .head_dim = 2});
  prefill.run(GetParam());
  EXPECT_EQ(prefill.last_work().dots, 500'500);
  EXPECT_EQ(prefill.last_work().dots_newest_row, 1000);
}

TEST_P(AttentionNumbers, ScratchIsKeptAndGrowsOnly) {
  cpu::CpuOperations ops(1);
  AttentionStep large({.seqs = {{20, 900}}});
  AttentionStep small({.seqs = {{1, 3}}});
  EXPECT_EQ(ops.held_bytes(GetParam()), 0U);
  ops.attention(GetParam(), large.args());
  const std::size_t held = ops.held_bytes(GetParam());
  EXPECT_EQ(held, ops.attention_workspace_bytes(GetParam(), large.args()));
  ops.attention(GetParam(), small.args());
  EXPECT_EQ(ops.held_bytes(GetParam()), held);
}

TEST_P(AttentionNumbers, WrongCallsAreRefused) {
  cpu::CpuOperations ops(1);
  AttentionStep step({.seqs = {{1, 33}}});
  AttentionArgs args = step.args();
  args.n_kv_heads = 3;
  EXPECT_THROW(ops.attention(GetParam(), args), std::invalid_argument);
  args.n_kv_heads = 0;
  EXPECT_THROW(ops.attention(GetParam(), args), std::invalid_argument);
  args = step.args();
  args.kv.pages_per_seq = 2;  // 32 slots
  EXPECT_THROW(ops.attention(GetParam(), args), std::invalid_argument);
}

TEST(NaiveWorkspace, GrowsWithQueriesTimesKeysAndFusedDoesNot) {
  cpu::CpuOperations ops(1);
  AttentionStep step({.seqs = {{1, 1}}});
  const auto bytes = [&](AttentionKind kind, std::int64_t n) {
    const std::vector<SequenceSpan> span = {{0, n, n}};
    AttentionArgs args = step.args();
    args.seqs = span;
    return ops.attention_workspace_bytes(kind, args);
  };
  EXPECT_EQ(bytes(AttentionKind::naive, 1024), 1024U * 1024U * 4U);
  EXPECT_EQ(bytes(AttentionKind::naive, 4096), 4096U * 4096U * 4U);
  EXPECT_EQ(bytes(AttentionKind::fused, 1024), bytes(AttentionKind::fused, 4096));
}

TEST(KvOffset, PassesTheThirtyTwoBitLimits) {
  KvView view;
  view.head_stride = 1'000'000'000;
  view.slot_stride = 128;
  const std::vector<std::int64_t> regions = {0, 20'000'000'000};
  view.region_offset = regions.data();
  EXPECT_EQ(kv_offset(view, 1, 7, 131'072), 20'000'000'000 + 7'000'000'000 + 131'072LL * 128);
  const std::vector<std::int32_t> table = {5, 2'000'000'000};
  view.page_table = table.data();
  view.pages_per_seq = 2;
  view.page_size = 16;
  view.page_stride = 16'384;
  view.head_stride = 2'048;
  EXPECT_EQ(kv_offset(view, 0, 3, 17), 2'000'000'000LL * 16'384 + 3 * 2'048 + 128);
}

}  // namespace
}  // namespace kvlab
