// Made-up rounds on either side of each threshold: a quiet machine says nothing, each kind of noise its own sentence.
#include "harness/noise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "tests/harness/made_up_results.h"

namespace kvlab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kWall_s = 100;  // a round long enough that ticks do not matter
constexpr int kCpus = 8;

Disturbance quiet_round() {
  Disturbance round;
  round.wall_s = kWall_s;
  round.cpus = kCpus;
  round.cpu_mhz = 3000;
  return round;
}

/// Three rounds of which one has been changed.
template <typename Change>
CaseResult result_with(Change change, int threads = kCpus) {
  CaseResult result = made_up::ok_result();
  result.spec.threads = threads;
  result.disturbances.assign(3, quiet_round());
  change(result.disturbances[1]);
  return result;
}

std::vector<std::string> warnings(const CaseResult& result) { return noise_warnings(result); }

TEST(Noise, AQuietMachineSaysNothing) {
  EXPECT_THAT(warnings(result_with([](Disturbance&) {})), IsEmpty());
  EXPECT_THAT(warnings(made_up::ok_result()), IsEmpty()) << "rounds of an older file tell nothing";
}

TEST(Noise, OtherProcessesBesideARunOnEveryCore) {
  const auto with = [](double cpus) {
    return warnings(result_with([&](Disturbance& round) { round.other_cpu_s = cpus * 3 * kWall_s; }));
  };
  EXPECT_THAT(with(0.04), IsEmpty());
  EXPECT_THAT(with(0.06), ElementsAre("noise: other processes kept 0.06 of 8 CPUs busy"));
}

TEST(Noise, FreeCoresTakeTheirShareOfOtherWork) {
  const auto with = [](double cpus) {
    return warnings(result_with([&](Disturbance& round) { round.other_cpu_s = cpus * 3 * kWall_s; }, 2));
  };
  EXPECT_THAT(with(0.29), IsEmpty()) << "six cores are free";
  EXPECT_THAT(with(0.32), ElementsAre(HasSubstr("other processes")));
}

TEST(Noise, StolenTime) {
  const auto with = [](double share) {
    return warnings(result_with([&](Disturbance& round) { round.steal_s = share * kCpus * 3 * kWall_s; }));
  };
  EXPECT_THAT(with(0.008), IsEmpty());
  EXPECT_THAT(with(0.02), ElementsAre("noise: the hypervisor took 2.0 % of the CPU time"));
}

TEST(Noise, ThrottlingByQuotaAndHeat) {
  const auto quota = [](double share) {
    return warnings(result_with([&](Disturbance& round) { round.quota_s = share * 3 * kWall_s; }));
  };
  EXPECT_THAT(quota(0.005), IsEmpty());
  EXPECT_THAT(quota(0.04), ElementsAre("noise: a CPU quota stopped the program for 4.0 % of the time"));
  EXPECT_THAT(warnings(result_with([](Disturbance& round) { round.thermal_events = 2; })),
              ElementsAre("noise: heat lowered a core's clock, 2 times"));
  EXPECT_THAT(warnings(result_with([](Disturbance& round) { round.gpu_slowdowns = 0x4 | 0x40; })),
              ElementsAre("noise: the GPU's clock was lowered: power cap, heat (hw)"));
}

TEST(Noise, AClockThatWanders) {
  const auto with = [](double mhz) { return warnings(result_with([&](Disturbance& round) { round.cpu_mhz = mhz; })); };
  EXPECT_THAT(with(2900), IsEmpty());
  EXPECT_THAT(with(0), IsEmpty()) << "one that could not be read is no clock of 0";
  EXPECT_THAT(with(2100), ElementsAre("noise: the clock was 2100 to 3000 MHz after a round"));
}

TEST(Noise, RoundsThatSpread) {
  CaseResult result = made_up::ok_result();
  const auto scale = [&](std::size_t round, double factor) {
    for (double& step : result.samples.step_s[round]) step = 1e-3 * factor;
  };
  scale(0, 1);
  scale(1, 1.02);
  scale(2, 1.06);  // quartiles 1.01 and 1.04
  EXPECT_NEAR(spread_of_rounds(result.samples), 0.03 / 1.02, 1e-12);
  EXPECT_THAT(warnings(result), IsEmpty());
  scale(2, 1.3);  // quartiles 1.01 and 1.16
  EXPECT_THAT(warnings(result), ElementsAre("noise: the middle half of the rounds spreads over 14.7 % of the median"));
}

TEST(Noise, OneBadRoundOfManyIsNoSpread) {
  CaseResult result = made_up::ok_result(5);
  result.samples.step_s[2].assign(result.samples.step_s[2].size(), 1);
  EXPECT_LT(spread_of_rounds(result.samples), kMostSpread);
}

TEST(Noise, SpreadOfPrefillsWhereNoStepWasMade) {
  CaseResult result = made_up::ok_result(2, 1);
  result.samples.prefill_s = {1, 2};
  EXPECT_DOUBLE_EQ(spread_of_rounds(result.samples), 0.5 / 1.5);
  result.samples.prefill_s = {1};
  EXPECT_EQ(spread_of_rounds(result.samples), 0);
}

/// A round of a few milliseconds is shorter than a tick: one tick of somebody else's is no evidence.
TEST(Noise, TicksOfShortRoundsAreNoEvidence) {
  const double tick_s = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  CaseResult result = made_up::ok_result();
  result.spec.threads = 2;
  Disturbance round = quiet_round();
  round.cpus = 2;
  round.wall_s = 0.005;
  result.disturbances.assign(3, round);
  result.disturbances[0].other_cpu_s = tick_s;
  result.disturbances[2].steal_s = tick_s;
  EXPECT_THAT(warnings(result), IsEmpty());
  const RunConditions conditions = conditions_of(result.disturbances);
  EXPECT_NEAR(conditions.tick_error_cpus() * conditions.wall_s, 3 * tick_s * std::sqrt(2 * 3 / 6.0), 1e-12);
  result.disturbances[0].other_cpu_s = 4 * tick_s;
  EXPECT_THAT(warnings(result), ElementsAre(HasSubstr("other processes")));
}

TEST(Noise, StandsInTheRowAndOnTheTable) {
  CaseResult noisy = result_with([](Disturbance& round) { round.steal_s = kCpus * kWall_s; });
  const nlohmann::ordered_json row = made_up::row(noisy);
  EXPECT_THAT(row["warnings"].dump(), HasSubstr("noise: the hypervisor took 33.3 %"));
  EXPECT_EQ(row["disturbance"]["steal_s"], nlohmann::ordered_json({0.0, kCpus * kWall_s, 0.0}));
  const auto report = report_json({row, made_up::row(made_up::ok_result())}, made_up::ceilings(),
                                  environment_json({}, 1, noisy.disturbances), "test", nullptr);
  EXPECT_DOUBLE_EQ(report["environment"]["during_run"]["steal_fraction"], 1.0 / 3);
  const std::string table = report_table(report);
  EXPECT_THAT(table, HasSubstr("ok, noisy"));
  EXPECT_THAT(table, HasSubstr("contiguous fused model: noisy: the hypervisor took 33.3 % of the CPU time"));
  EXPECT_EQ(table.find("ok, noisy"), table.rfind("ok, noisy")) << "the quiet row is not marked";
}

}  // namespace
}  // namespace kvlab
