// Percentiles against hand-computed values and the bootstrap's promises.
#include "harness/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace kvlab {
namespace {

/// 1, 2, ..., n in a scrambled order.
std::vector<double> one_to(std::size_t n) {
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(static_cast<double>((i * 37) % n + 1));
  return values;
}

TEST(Percentile, LinearBetweenClosestRanks) {
  struct Row {
    std::size_t n;
    double p50, p90, p95, p99;
  };
  // Position p/100 (n - 1) from 0 in 1 ... n: value 1 + p/100 (n - 1).
  for (const Row& row :
       {Row{1, 1, 1, 1, 1}, Row{2, 1.5, 1.9, 1.95, 1.99}, Row{10, 5.5, 9.1, 9.55, 9.91}, Row{99, 50, 89.2, 94.1, 98.02},
        Row{100, 50.5, 90.1, 95.05, 99.01}, Row{101, 51, 91, 96, 100}}) {
    const std::vector<double> values = one_to(row.n);
    EXPECT_NEAR(percentile(values, 50), row.p50, 1e-12) << row.n;
    EXPECT_NEAR(percentile(values, 90), row.p90, 1e-12) << row.n;
    EXPECT_NEAR(percentile(values, 95), row.p95, 1e-12) << row.n;
    EXPECT_NEAR(percentile(values, 99), row.p99, 1e-12) << row.n;
    EXPECT_EQ(percentile(values, 0), 1) << row.n;
    EXPECT_EQ(percentile(values, 100), static_cast<double>(row.n)) << row.n;
  }
}

TEST(Percentile, RefusesNothingAndNonsense) {
  EXPECT_THROW(percentile({}, 50), std::invalid_argument);
  EXPECT_THROW(percentile(one_to(3), -1), std::invalid_argument);
  EXPECT_THROW(percentile(one_to(3), std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
  EXPECT_THROW(mean({}), std::invalid_argument);
}

TEST(Percentile, NeedsEnoughSamplesToDifferFromTheLargest) {
  EXPECT_EQ(least_samples(50), 1U);
  EXPECT_EQ(least_samples(90), 10U);
  EXPECT_EQ(least_samples(95), 20U);
  EXPECT_EQ(least_samples(99), 100U);
}

TEST(MedianAbsoluteDeviation, IsTheMedianDistance) {
  EXPECT_EQ(median_absolute_deviation(std::vector<double>{7}), 0);
  EXPECT_EQ(median_absolute_deviation(std::vector<double>{1, 1, 2, 2, 4, 6, 9}), 1);  // distances 0 0 1 1 2 4 7
  EXPECT_EQ(median_absolute_deviation(std::vector<double>{1, 1, 2, 2, 4, 6, 1e9}), 1);
  EXPECT_EQ(median_absolute_deviation(std::vector<double>{1, 3}), 1);
  EXPECT_THROW(median_absolute_deviation({}), std::invalid_argument);
}

TEST(MeanEstimate, IsStudentsInterval) {
  // Mean 3, standard deviation sqrt(2.5), t(0.975, 4) = 2.776445.
  const auto estimate = mean_estimate(std::vector<double>{1, 2, 3, 4, 5});
  ASSERT_TRUE(estimate.has_value());
  EXPECT_NEAR(estimate->value, 3, 1e-12);
  EXPECT_NEAR(estimate->high, 3 + 2.776445 * std::sqrt(2.5 / 5), 1e-5);
  EXPECT_NEAR(estimate->low, 3 - 2.776445 * std::sqrt(2.5 / 5), 1e-5);
  EXPECT_FALSE(mean_estimate(std::vector<double>{1}).has_value());
  EXPECT_FALSE(mean_estimate(std::vector<double>{1, std::numeric_limits<double>::quiet_NaN()}).has_value());
}

TEST(MedianInterval, HoldsTheMedianAndRepeats) {
  const std::vector<std::vector<double>> rounds = {{1.0, 1.2, 1.1}, {1.3, 1.4, 1.2}, {0.9, 1.0, 1.1}, {1.1, 1.2, 1.3}};
  const auto interval = median_interval(rounds, 7);
  ASSERT_TRUE(interval.has_value());
  EXPECT_LE(interval->low, 1.15);
  EXPECT_GE(interval->high, 1.15);
  EXPECT_LT(interval->low, interval->high);
  const auto again = median_interval(rounds, 7);
  EXPECT_EQ(interval->low, again->low);
  EXPECT_EQ(interval->high, again->high);
}

TEST(MedianInterval, EqualRoundsLeaveNoDoubt) {
  const std::vector<std::vector<double>> rounds(5, {2.0, 3.0, 4.0, 5.0});
  const auto interval = median_interval(rounds, 1);
  ASSERT_TRUE(interval.has_value());
  EXPECT_EQ(interval->low, 3.5);
  EXPECT_EQ(interval->high, 3.5);
}

TEST(MedianInterval, DriftBetweenRoundsWidensIt) {
  std::vector<std::vector<double>> drifting;
  for (int round = 0; round < 6; ++round) drifting.push_back(std::vector<double>(100, 1.0 + 0.1 * round));
  const auto interval = median_interval(drifting, 1);
  ASSERT_TRUE(interval.has_value());
  EXPECT_LE(interval->low, 1.1);  // 600 samples taken for independent would give about 1.2 ... 1.3
  EXPECT_GE(interval->high, 1.4);
}

TEST(MedianInterval, NeedsTwoRounds) {
  EXPECT_FALSE(median_interval(std::vector<std::vector<double>>{{1, 2, 3}}, 1).has_value());
  EXPECT_FALSE(median_interval(std::vector<std::vector<double>>{{1, 2, 3}, {}}, 1).has_value());
}

}  // namespace
}  // namespace kvlab
