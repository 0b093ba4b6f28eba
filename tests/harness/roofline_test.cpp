// Where a phase stands under the roof, and the fractions of a datasheet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/hardware.h"
#include "harness/metrics.h"
#include "tests/harness/made_up_results.h"

namespace kvlab {
namespace {

using made_up::ok_result;

JudgedResult judged(const Ceilings& ceilings, const std::optional<Hardware>& datasheet = std::nullopt) {
  return judge(ok_result(), testing_shapes::toy(), ceilings, datasheet);
}

/// Prefill of 5 rows of toy, SPEC S22: 4,656 FLOPs.
TEST(SpecS22, PrefillIntensityIsItsFlopsOverItsBytes) {
  const CaseResult result = ok_result();
  const PhaseMetrics prefill = judged(made_up::ceilings()).metrics->prefill;
  const WorkCounters& work = result.prefill_work;
  EXPECT_EQ(prefill.flops, 4656);
  EXPECT_EQ(prefill.bytes, work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes);
  EXPECT_DOUBLE_EQ(*prefill.roofline.intensity, 4656.0 / static_cast<double>(*prefill.bytes));
}

TEST(Roofline, UnderTheSlopeAPhaseIsBoundByMemory) {
  const JudgedResult row = judged({1e9, 1e9, 1e15, 1e15});  // products that cost nothing
  for (const PhaseMetrics& phase : {row.metrics->prefill, row.metrics->decode}) {
    EXPECT_EQ(phase.roofline.bound_by_compute, false);
    EXPECT_DOUBLE_EQ(*phase.roofline.attainable_flops_per_s, *phase.roofline.intensity * 1e9);
  }
  // Below the slope the share of the roof is the share of the bandwidth.
  EXPECT_NEAR(*row.metrics->decode.roofline.attained_share, *row.metrics->mbu, 1e-12);
}

TEST(Roofline, UnderTheFlatRoofAPhaseIsBoundByCompute) {
  const JudgedResult row = judged({1e15, 1e15, 1e9, 1e8});
  for (const PhaseMetrics& phase : {row.metrics->prefill, row.metrics->decode}) {
    EXPECT_EQ(phase.roofline.bound_by_compute, true);
    EXPECT_DOUBLE_EQ(*phase.roofline.attainable_flops_per_s, 1e9);
    EXPECT_DOUBLE_EQ(*phase.roofline.attained_share, *phase.mfu);
  }
}

TEST(Roofline, Bf16WeightsHaveARoofOfTheirOwn) {
  CaseResult result = ok_result();
  result.spec.variant.weight_dtype = DType::bf16;
  const JudgedResult row = judge(result, testing_shapes::toy(), Ceilings{1e15, 1e15, 1e9, 1e8});
  EXPECT_DOUBLE_EQ(*row.metrics->prefill.roofline.attainable_flops_per_s, 1e8);
}

TEST(Roofline, WithoutCeilingsThereIsOnlyAnIntensity) {
  const JudgedResult row = judge(ok_result(), testing_shapes::toy(), std::nullopt);
  const Roofline& roofline = row.metrics->prefill.roofline;
  EXPECT_TRUE(roofline.intensity);
  EXPECT_FALSE(roofline.attainable_flops_per_s || roofline.attained_share || roofline.bound_by_compute);
}

TEST(Roofline, IsWrittenForBothPhases) {
  const auto row = made_up::row(ok_result());
  for (const char* phase : {"prefill", "decode"}) {
    const auto& metrics = row["metrics"][phase];
    EXPECT_GT(metrics["intensity"], 0.0) << phase;
    EXPECT_EQ(metrics["bound"], "memory") << phase;
    EXPECT_TRUE(metrics["datasheet_mfu"].is_null()) << phase;
  }
  EXPECT_TRUE(made_up::row(ok_result(3, 1))["metrics"]["decode"]["bound"].is_null()) << "no step was made";
}

TEST(Datasheet, IsFoundByTheNameThatTheDeviceGives) {
  EXPECT_EQ(hardware_of_device("NVIDIA H200")->name, "NVIDIA H200 SXM");
  for (const char* unknown : {"", "NVIDIA", "NVIDIA H200 NVL", "nvidia h200"}) {
    EXPECT_FALSE(hardware_of_device(unknown)) << unknown;
  }
}

TEST(Datasheet, FractionsDivideByItsNumbers) {
  const Hardware h200 = load_hardware("h200");  // 4.8 TB/s, 67 TFLOPS in f32 by its datasheet
  const Metrics metrics = *judged(made_up::ceilings(), h200).metrics;
  EXPECT_DOUBLE_EQ(*metrics.decode.datasheet_mbu, *metrics.bytes_per_s / 4.8e12);
  EXPECT_DOUBLE_EQ(*metrics.prefill.datasheet_mfu, *metrics.prefill.flops_per_s / 67e12);
  const Metrics without = *judged(made_up::ceilings()).metrics;
  EXPECT_FALSE(without.decode.datasheet_mbu || without.decode.datasheet_mfu);
}

}  // namespace
}  // namespace kvlab
