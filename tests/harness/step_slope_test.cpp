// The slope of step time by position on made-up rounds whose slope is known.
#include "harness/step_slope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

namespace kvlab {
namespace {

constexpr double kSlope = 2e-6;

/// Rounds of 80 steps: each round starts elsewhere and has a slope of its own near kSlope; every step has noise, one in
/// twenty takes three times as long.
std::vector<std::vector<double>> made_up_rounds(std::size_t n_rounds, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<std::vector<double>> rounds(n_rounds);
  for (std::vector<double>& round : rounds) {
    const double start = 1e-3 * (1 + 0.05 * normal(random));
    const double slope = kSlope * (1 + 0.1 * normal(random));
    for (int step = 0; step < 80; ++step) {
      const double clean = start + slope * step + 1e-5 * normal(random);
      round.push_back(uniform(random) < 0.05 ? 3 * clean : clean);
    }
  }
  return rounds;
}

TEST(StepSlope, OfALineIsItsSlope) {
  std::vector<double> line;
  for (int i = 0; i < 50; ++i) line.push_back(3 + 0.25 * i);
  EXPECT_NEAR(theil_sen_slope(line), 0.25, 1e-12);
  for (std::size_t i = 3; i < line.size(); i += 4) line[i] += 100;  // a quarter of the points
  EXPECT_NEAR(theil_sen_slope(line), 0.25, 0.02);
}

TEST(StepSlope, LongRoundsStandForRunsOfNeighbours) {
  std::vector<double> line;
  for (int i = 0; i < 2500; ++i) line.push_back(1 + 1e-3 * i);
  EXPECT_NEAR(theil_sen_slope(line), 1e-3, 1e-12);
}

TEST(StepSlope, IntervalsHoldTheTruthNineteenTimesInTwenty) {
  constexpr int kSeeds = 500;
  for (const std::size_t n_rounds : {3U, 6U}) {
    int hits = 0;
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      const auto slope = step_slope(made_up_rounds(n_rounds, seed));
      ASSERT_TRUE(slope.has_value());
      hits += slope->low <= kSlope && kSlope <= slope->high ? 1 : 0;
    }
    EXPECT_GE(hits, 460) << n_rounds;  // 475 expected, with a standard deviation of 4.9
    EXPECT_LE(hits, 490) << n_rounds;
  }
}

TEST(StepSlope, NeedsTwoRoundsOfEnoughStepsAndGoodTimes) {
  std::vector<std::vector<double>> rounds(2, std::vector<double>(kLeastSlopeSteps, 1.0));
  ASSERT_TRUE(step_slope(rounds).has_value());
  EXPECT_EQ(step_slope(rounds)->value, 0);
  EXPECT_FALSE(step_slope(std::span(rounds).first(1)).has_value());
  rounds[1].pop_back();
  EXPECT_FALSE(step_slope(rounds).has_value());
  rounds[1].push_back(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(step_slope(rounds).has_value());
  EXPECT_FALSE(step_slope({}).has_value());
  EXPECT_THROW(theil_sen_slope(std::vector<double>{1.0}), std::invalid_argument);
}

}  // namespace
}  // namespace kvlab
