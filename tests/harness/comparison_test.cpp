// Comparing timings, on simulated rounds whose truth is known.
#include "harness/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kvlab {
namespace {

using Rounds = std::vector<std::vector<double>>;

/// Rounds of times around `center_s`: each round is off by a factor of its own, each sample by a smaller one.
Rounds noisy_rounds(double center_s, std::size_t n_rounds, std::size_t n_samples, double noise, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Rounds rounds;
  for (std::size_t round = 0; round < n_rounds; ++round) {
    const double of_round = center_s * std::exp(noise * normal(random));
    rounds.emplace_back();
    for (std::size_t i = 0; i < n_samples; ++i) {
      rounds.back().push_back(of_round * std::exp(0.3 * noise * normal(random)));
    }
  }
  return rounds;
}

/// Verdicts over `n_cells` cells whose new time is `factor` times the base time.
std::vector<Verdict> simulated_verdicts(std::size_t n_cells, std::size_t n_rounds, double noise, double factor) {
  std::mt19937 random(42);
  std::vector<TimeRatio> ratios;
  std::vector<double> chances;
  for (std::size_t cell = 0; cell < n_cells; ++cell) {
    const Rounds base = noisy_rounds(2e-3, n_rounds, 15, noise, random);
    const Rounds other = noisy_rounds(2e-3 * factor, n_rounds, 15, noise, random);
    ratios.push_back(compare_times(base, other, cell));
    chances.push_back(*ratios.back().chance_if_same);
  }
  const std::vector<double> adjusted = control_false_discoveries(chances);
  std::vector<Verdict> verdicts;
  for (std::size_t i = 0; i < ratios.size(); ++i) verdicts.push_back(judge_ratio(ratios[i], adjusted[i]));
  return verdicts;
}

double share(const std::vector<Verdict>& verdicts, Verdict wanted) {
  const auto n = std::count(verdicts.begin(), verdicts.end(), wanted);
  return static_cast<double>(n) / static_cast<double>(verdicts.size());
}

TEST(Verdicts, TwoRunsOfOneThingAreTheSame) {
  EXPECT_GE(share(simulated_verdicts(200, 10, 0.02, 1), Verdict::same), 0.95);
  EXPECT_GE(share(simulated_verdicts(200, 5, 0.01, 1), Verdict::same), 0.95);
}

/// Rounds on a machine whose neighbour comes and goes: while it is there, a round takes 1.6 times as long.
Rounds shared_machine_rounds(double center_s, double neighbour_share, std::size_t n_rounds, std::mt19937& random) {
  std::bernoulli_distribution has_neighbour(neighbour_share);
  Rounds rounds = noisy_rounds(center_s, n_rounds, 15, 0.01, random);
  for (std::vector<double>& round : rounds) {
    if (!has_neighbour(random)) continue;
    for (double& sample : round) sample *= 1.6;
  }
  return rounds;
}

TEST(Verdicts, ALowPercentileSeesPastNeighboursThatTheMedianCannot) {
  constexpr int kTrials = 50;
  std::mt19937 random(7);
  int same_by_low = 0;
  int slower_by_low = 0;
  int misled_median = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Rounds base = shared_machine_rounds(2e-3, 0.4, 40, random);
    const Rounds same = shared_machine_rounds(2e-3, 0.6, 40, random);
    const Rounds slowed = shared_machine_rounds(2.2e-3, 0.6, 40, random);
    const auto seed = static_cast<std::uint64_t>(trial);
    const TimeRatio unchanged = compare_times(base, same, seed, 10);
    const TimeRatio found = compare_times(base, slowed, seed, 10);
    same_by_low += judge_ratio(unchanged, *unchanged.chance_if_same) == Verdict::same ? 1 : 0;
    slower_by_low += judge_ratio(found, *found.chance_if_same) == Verdict::slower ? 1 : 0;
    EXPECT_NEAR(found.ratio, 1.1, 0.03) << trial;
    misled_median += compare_times(base, same, seed).ratio > 1.1 ? 1 : 0;
  }
  EXPECT_GE(same_by_low, kTrials * 95 / 100);
  EXPECT_GE(slower_by_low, kTrials * 95 / 100);
  EXPECT_GT(misled_median, kTrials / 5);
}

TEST(Verdicts, ATenthPercentileNeedsTenRounds) {
  std::mt19937 random(8);
  const Rounds nine = noisy_rounds(2e-3, 9, 15, 0.01, random);
  const Rounds ten = noisy_rounds(2e-3, 10, 15, 0.01, random);
  EXPECT_FALSE(compare_times(nine, ten, 1, 10).ci95.has_value());
  EXPECT_TRUE(compare_times(ten, noisy_rounds(2e-3, 10, 15, 0.01, random), 1, 10).ci95.has_value());
  EXPECT_FALSE(compare_times(ten, nine, 1, 90).ci95.has_value());
}

TEST(Verdicts, NoiseIsNotTakenForADifference) {
  for (const std::size_t n_rounds : {2, 3, 5, 10}) {
    for (const double noise : {0.02, 0.1, 0.3}) {
      const std::vector<Verdict> verdicts = simulated_verdicts(200, n_rounds, noise, 1);
      EXPECT_LE(share(verdicts, Verdict::slower) + share(verdicts, Verdict::faster), 0.01)
          << n_rounds << " rounds, noise " << noise;
    }
  }
}

TEST(Verdicts, ASlowdownOfTenPercentIsFound) {
  EXPECT_GE(share(simulated_verdicts(200, 10, 0.02, 1.1), Verdict::slower), 0.95);
  EXPECT_GE(share(simulated_verdicts(200, 5, 0.01, 1.1), Verdict::slower), 0.95);
  EXPECT_GE(share(simulated_verdicts(200, 10, 0.02, 1 / 1.1), Verdict::faster), 0.95);
}

TEST(Verdicts, TooMuchNoiseIsUnclearAndNotTheSame) {
  EXPECT_GE(share(simulated_verdicts(200, 3, 0.2, 1), Verdict::unclear), 0.95);
}

TEST(CompareMedians, IntervalsHoldTheTruth) {
  for (const std::size_t n_rounds : {2, 3, 4, 10}) {
    std::mt19937 random(7);
    int held = 0;
    for (int trial = 0; trial < 400; ++trial) {
      const Rounds base = noisy_rounds(1, n_rounds, 1, 0.05, random);
      const Rounds other = noisy_rounds(1.2, n_rounds, 1, 0.05, random);
      const TimeRatio found = compare_times(base, other, static_cast<std::uint64_t>(trial));
      held += found.ci95->low <= 1.2 && 1.2 <= found.ci95->high ? 1 : 0;
    }
    EXPECT_GE(held, 364) << n_rounds << " rounds";  // 95 % less four standard deviations of a count of 400: 363
  }
}

TEST(CompareMedians, WithoutVarianceTheRatioIsSure) {
  const Rounds base(3, {2.0, 2.0});
  const TimeRatio equal = compare_times(base, base, 1);
  EXPECT_EQ(equal.ratio, 1);
  EXPECT_EQ(*equal.chance_if_same, 1);
  EXPECT_EQ(judge_ratio(equal, equal.chance_if_same), Verdict::same);

  const TimeRatio doubled = compare_times(base, Rounds(3, {4.0, 4.0}), 1);
  EXPECT_EQ(doubled.ratio, 2);
  EXPECT_EQ(doubled.ci95->low, 2);
  EXPECT_EQ(doubled.ci95->high, 2);
  EXPECT_EQ(judge_ratio(doubled, doubled.chance_if_same), Verdict::slower);
}

TEST(CompareMedians, AMeasurementIsTheSameAsItself) {
  std::mt19937 random(3);
  const Rounds noisy = noisy_rounds(1, 3, 4, 0.5, random);
  const TimeRatio found = compare_times(noisy, noisy, 1);
  EXPECT_EQ(found.ratio, 1);
  EXPECT_EQ(judge_ratio(found, found.chance_if_same), Verdict::same);
}

TEST(CompareMedians, OneRoundGivesARatioAndNoVerdict) {
  const TimeRatio found = compare_times(Rounds{{1, 2, 3}}, Rounds{{8, 8, 8}, {8, 8, 8}}, 1);
  EXPECT_EQ(found.ratio, 4);
  EXPECT_FALSE(found.ci95.has_value());
  EXPECT_FALSE(found.chance_if_same.has_value());
  EXPECT_EQ(judge_ratio(found, std::nullopt), Verdict::unclear);
}

TEST(Verdicts, ASureButNegligibleDifferenceIsTheSame) {
  TimeRatio found;
  found.ratio = 1.02;
  found.ci95 = Interval{1.019, 1.021};
  EXPECT_EQ(judge_ratio(found, 1e-9), Verdict::same);
  found.ratio = std::numeric_limits<double>::quiet_NaN();
  found.ci95 = Interval{found.ratio, found.ratio};
  EXPECT_EQ(judge_ratio(found, found.ratio), Verdict::unclear);
}

TEST(ControlFalseDiscoveries, ByHand) {
  // Sorted 0.01 0.02 0.03 0.5; times 4 over rank: 0.04 0.04 0.04 0.5, and none above the one after it.
  const std::vector<double> adjusted = control_false_discoveries(std::vector<double>{0.03, 0.5, 0.01, 0.02});
  ASSERT_EQ(adjusted.size(), 4U);
  EXPECT_DOUBLE_EQ(adjusted[0], 0.04);
  EXPECT_DOUBLE_EQ(adjusted[1], 0.5);
  EXPECT_DOUBLE_EQ(adjusted[2], 0.04);
  EXPECT_DOUBLE_EQ(adjusted[3], 0.04);
  EXPECT_TRUE(control_false_discoveries({}).empty());
}

TEST(Student, PublishedQuantiles) {
  // Two-sided 5 % and 0.1 % points of the printed tables.
  EXPECT_NEAR(student_quantile(0.05, 1), 12.706, 5e-4);
  EXPECT_NEAR(student_quantile(0.05, 2), 4.303, 5e-4);
  EXPECT_NEAR(student_quantile(0.05, 3), 3.182, 5e-4);
  EXPECT_NEAR(student_quantile(0.05, 4), 2.776, 5e-4);
  EXPECT_NEAR(student_quantile(0.05, 9), 2.262, 5e-4);
  EXPECT_NEAR(student_quantile(0.05, 30), 2.042, 5e-4);
  EXPECT_NEAR(student_quantile(0.001, 5), 6.869, 5e-4);
  EXPECT_EQ(student_tail(0, 7), 1);
  EXPECT_THROW(student_tail(1, 0), std::invalid_argument);
}

}  // namespace
}  // namespace kvlab
