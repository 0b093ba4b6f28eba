// What follows from samples and counters, and which rows cannot be right.
#include "harness/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/machine.h"
#include "tests/harness/made_up_results.h"

namespace kvlab {
namespace {

using made_up::ok_result;
using ::testing::HasSubstr;

JudgedResult judged(const CaseResult& result, const Ceilings& ceilings = made_up::ceilings()) {
  return judge(result, testing_shapes::toy(), ceilings);
}

TEST(Metrics, RatesDivideByTheMedianRound) {
  const CaseResult result = ok_result(3, 48);
  const Metrics metrics = *judged(result).metrics;
  const double prefill_s = 1e-3 + 1e-5;
  const double decode_s = 47 * (1e-3 + 1e-5);
  EXPECT_NEAR(*metrics.prefill.tokens_per_s, 5 / prefill_s, 1e-6);
  EXPECT_NEAR(*metrics.decode.tokens_per_s, 47 / decode_s, 1e-6);
  EXPECT_EQ(*metrics.prefill.flops, 4656);
  EXPECT_NEAR(*metrics.prefill.flops_per_s, 4656 / prefill_s, 1e-3);
  EXPECT_NEAR(*metrics.prefill.mfu, 4656 / prefill_s / 300e9, 1e-12);
  const WorkCounters& work = result.decode_work;
  const auto bytes = static_cast<double>(work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes);
  EXPECT_NEAR(*metrics.bytes_per_step, bytes / 47, 1e-9);
  EXPECT_NEAR(*metrics.bytes_per_s, bytes / decode_s, 1e-3);
  EXPECT_NEAR(*metrics.mbu, bytes / decode_s / 30e9, 1e-12);
}

TEST(Metrics, Bf16WeightsAreHeldAgainstTheirOwnCeiling) {
  CaseResult result = ok_result();
  result.spec.variant.weight_dtype = DType::bf16;
  const Metrics metrics = *judged(result).metrics;
  EXPECT_NEAR(*metrics.prefill.mfu, *metrics.prefill.flops_per_s / 100e9, 1e-15);
}

TEST(Metrics, FirstTokenIsNoStepAndSharesAddUp) {
  const Metrics metrics = *judged(ok_result(3, 48)).metrics;
  EXPECT_NEAR(*metrics.e2e_s, 2e-3 + 1e-5 + 47 * (1e-3 + 1e-5), 1e-12);
  EXPECT_DOUBLE_EQ(*metrics.prefill_share + *metrics.decode_share, 1.0);
  EXPECT_NEAR(*metrics.step_s.max, 1e-3 + 2e-5, 1e-12);
  EXPECT_NEAR(*metrics.step_growth, 1.0, 1e-12);
}

TEST(Metrics, GrowthSeesStepsThatGetLonger) {
  CaseResult result = ok_result(2, 41);
  for (auto& round : result.samples.step_s) {
    for (std::size_t i = 0; i < round.size(); ++i) round[i] = 1e-3 * static_cast<double>(i + 1);
  }
  // Quarters of 40 steps: medians of 1 ... 10 and of 31 ... 40 ms.
  EXPECT_NEAR(*judged(result).metrics->step_growth, 35.5 / 5.5, 1e-9);
}

TEST(Metrics, SpreadAndSlopeOfSteps) {
  CaseResult result = ok_result(3, 41);
  for (std::size_t round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 40; ++i) {
      const double slope = 1e-6 * static_cast<double>(round + 1);
      result.samples.step_s[round][i] = 1e-3 + slope * static_cast<double>(i);
    }
  }
  const Metrics metrics = *judged(result).metrics;
  ASSERT_TRUE(metrics.step_slope_s_per_token.has_value());
  EXPECT_NEAR(metrics.step_slope_s_per_token->value, 2e-6, 1e-12);
  EXPECT_NEAR(metrics.step_slope_s_per_token->high, 2e-6 + 4.302653 * 1e-6 / std::sqrt(3.0), 1e-10);  // t(0.975, 2)
  EXPECT_GT(*metrics.step_s.mad, 0);
  EXPECT_NEAR(*metrics.ttft_s.mad, 1e-5, 1e-12);
}

TEST(Metrics, NoSlopeFromOneRoundOrAFewSteps) {
  for (const CaseResult& result : {ok_result(1, 48), ok_result(3, 8)}) {
    const JudgedResult row = judged(result);
    EXPECT_FALSE(row.metrics->step_slope_s_per_token.has_value());
    EXPECT_THAT(row.result.warnings, ::testing::Contains(HasSubstr("step_slope_s_per_token left out")));
  }
}

TEST(Metrics, WasteIsTailsOfPagesOrOverReservedRegions) {
  CaseResult result = ok_result(3, 48);
  Metrics metrics = *judged(result).metrics;
  EXPECT_EQ(metrics.kv.theoretical_bytes, 96 * 52);
  EXPECT_EQ(metrics.kv.reserve_waste_bytes, 96 * (64 - 52));
  EXPECT_EQ(metrics.kv.tail_waste_bytes, 0);
  result.spec.variant.cache = CacheKind::paged;
  metrics = *judged(result).metrics;
  EXPECT_EQ(metrics.kv.tail_waste_bytes, 96 * (64 - 52));
  EXPECT_EQ(metrics.kv.reserve_waste_bytes, 0);
}

TEST(Metrics, PercentilesWithoutEnoughSamplesAreAbsentAndSaidSo) {
  const JudgedResult row = judged(ok_result(3, 31));
  EXPECT_TRUE(row.metrics->step_s.p90.has_value());
  EXPECT_TRUE(row.metrics->step_s.p95.has_value());
  EXPECT_FALSE(row.metrics->step_s.p99.has_value()) << "90 samples";
  EXPECT_FALSE(row.metrics->ttft_s.p90.has_value());
  EXPECT_THAT(row.result.warnings, ::testing::Contains(HasSubstr("latency.step_s: p99 (needs 100) left out")));
  EXPECT_THAT(row.result.warnings, ::testing::Contains(HasSubstr("there are 3 samples")));
}

TEST(Metrics, OneRoundHasNoInterval) {
  const JudgedResult row = judged(ok_result(1, 48));
  EXPECT_FALSE(row.metrics->step_s.ci95.has_value());
  EXPECT_THAT(row.result.warnings, ::testing::Contains(HasSubstr("ci95 left out")));
  EXPECT_TRUE(judged(ok_result(2, 48)).metrics->step_s.ci95.has_value());
}

TEST(Metrics, OneTokenHasNoDecode) {
  const Metrics metrics = *judged(ok_result(3, 1)).metrics;
  EXPECT_FALSE(metrics.decode.tokens_per_s.has_value());
  EXPECT_FALSE(metrics.bytes_per_step.has_value());
  EXPECT_FALSE(metrics.step_s.p50.has_value());
  EXPECT_EQ(*metrics.decode.flops, 0);
}

TEST(Judgement, AGoodRowStandsAndOthersKeepTheirStatus) {
  EXPECT_EQ(judged(ok_result()).result.status, Status::ok);
  EXPECT_EQ(judged(made_up::unsuccessful(Status::failed, "differs")).result.status, Status::failed);
  EXPECT_FALSE(judged(made_up::unsuccessful(Status::failed, "differs")).metrics.has_value());
}

TEST(Judgement, TimesThatAreNotPositive) {
  for (const double time :
       {0.0, -1e-3, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CaseResult result = ok_result();
    result.samples.step_s[1][7] = time;
    const JudgedResult row = judged(result);
    EXPECT_EQ(row.result.status, Status::invalid) << time;
    EXPECT_THAT(row.result.reason, HasSubstr("step_s"));
    EXPECT_EQ(row.metrics->work.gemm_flops, result.prefill_work.gemm_flops + result.decode_work.gemm_flops);
  }
  CaseResult untimed = ok_result(0);
  EXPECT_EQ(judged(untimed).result.status, Status::invalid);
}

TEST(Judgement, CountsThatDifferFromTheFormula) {
  CaseResult result = ok_result();
  result.decode_work.attention_dots[1] += 1;
  const JudgedResult row = judged(result);
  EXPECT_EQ(row.result.status, Status::invalid);
  EXPECT_THAT(row.result.reason, HasSubstr("decode attention_dots: counted"));
  CaseResult bytes = ok_result();
  bytes.prefill_work.weight_bytes -= 4;
  EXPECT_THAT(judged(bytes).result.reason, HasSubstr("prefill weight_bytes: counted"));
}

/// A ceiling under which the made-up row reaches `mbu`.
Ceilings ceilings_for_mbu(double mbu) {
  Ceilings ceilings = made_up::ceilings();
  ceilings.read_bytes_per_s = *judged(ok_result()).metrics->bytes_per_s / mbu;
  return ceilings;
}

TEST(Judgement, BandwidthAboveTheCeilingIsInnocentOnlyInsideTheCache) {
  const JudgedResult small = judged(ok_result(), ceilings_for_mbu(3));
  EXPECT_EQ(small.result.status, Status::ok);
  EXPECT_THAT(small.result.warnings, ::testing::Contains(HasSubstr("decode.mbu is 3.00")));
}

TEST(Judgement, BandwidthAboveTheCeilingOutsideTheCacheIsInvalid) {
  // A shape whose step is larger than any cache, with counters to match.
  ModelConfig large = testing_shapes::llama_8b();
  CaseResult result = ok_result();
  result.prefill_work = prefill_work(large, result.spec.variant, result.spec.workload);
  result.decode_work = decode_work(large, result.spec.variant, result.spec.workload);
  ASSERT_GT(result.decode_work.weight_bytes / 47, last_level_cache_bytes());
  Ceilings ceilings{1, 1, 1e30, 1e30};
  EXPECT_EQ(judge(result, large, ceilings).result.status, Status::invalid);
  ceilings.read_bytes_per_s = *judge(result, large, ceilings).metrics->bytes_per_s / 1.05;
  const JudgedResult close = judge(result, large, ceilings);
  EXPECT_EQ(close.result.status, Status::ok);
  EXPECT_THAT(close.result.warnings, ::testing::Contains(HasSubstr("decode.mbu is 1.05")));
}

TEST(Judgement, ProductsAboveTheCeilingAreInvalidOrRemarked) {
  Ceilings ceilings = made_up::ceilings();
  ceilings.gemm_flops_per_s_f32 = 1e6;
  const JudgedResult row = judged(ok_result(), ceilings);
  EXPECT_EQ(row.result.status, Status::invalid);
  EXPECT_THAT(row.result.reason, HasSubstr("prefill.mfu"));
  ceilings.gemm_flops_per_s_f32 = *judged(ok_result()).metrics->prefill.flops_per_s / 1.2;
  EXPECT_EQ(judged(ok_result(), ceilings).result.status, Status::ok);
  EXPECT_THAT(judged(ok_result(), ceilings).result.warnings, ::testing::Contains(HasSubstr("prefill.mfu is 1.20")));
}

}  // namespace
}  // namespace kvlab
