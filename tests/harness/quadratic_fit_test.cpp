// The fit of prefill time by prompt length on made-up times whose coefficients are known.
#include "harness/quadratic_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace kvlab {
namespace {

constexpr double kA = 2e-3;
constexpr double kB = 3e-4;
constexpr double kC = 2.5e-8;

double model(double n) { return kA + kB * n + kC * n * n; }

/// 512, 1,024, ... 32,768 tokens, each time off by a normal fraction of `noise`.
std::vector<TimedLength> made_up(double noise, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, noise);
  std::vector<TimedLength> points;
  for (double n = 512; n <= 32768; n *= 2) points.push_back({n, model(n) * (1 + (noise > 0 ? normal(random) : 0))});
  return points;
}

TEST(QuadraticFit, FindsWhatTheTimesWereMadeOf) {
  const auto fit = fit_quadratic(made_up(0, 1));
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->a_s.value, kA, 1e-9);
  EXPECT_NEAR(fit->b_s_per_token.value, kB, kB * 1e-9);
  EXPECT_NEAR(fit->c_s_per_token2.value, kC, kC * 1e-9);
  EXPECT_NEAR(fit->quadratic_share(32768), kC * 32768 * 32768 / model(32768), 1e-9);
  EXPECT_NEAR(fit->fitted_s.back(), model(32768), 1e-9);
  EXPECT_NEAR(fit->relative_error, 0, 1e-9);
}

/// The normal equations of the same weights by Cramer's rule, in long double.
std::array<long double, 3> by_normal_equations(const std::vector<TimedLength>& points) {
  long double m[3][4] = {};
  for (const TimedLength& point : points) {
    const long double weight = 1.0L / (static_cast<long double>(point.seconds) * point.seconds);
    const long double n = point.tokens;
    const long double row[4] = {1, n, n * n, point.seconds};
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 4; ++j) m[i][j] += weight * row[i] * row[j];
    }
  }
  const auto determinant = [&](int replaced) {
    long double d[3][3];
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) d[i][j] = m[i][j == replaced ? 3 : j];
    }
    return d[0][0] * (d[1][1] * d[2][2] - d[1][2] * d[2][1]) - d[0][1] * (d[1][0] * d[2][2] - d[1][2] * d[2][0]) +
           d[0][2] * (d[1][0] * d[2][1] - d[1][1] * d[2][0]);
  };
  return {determinant(0) / determinant(-1), determinant(1) / determinant(-1), determinant(2) / determinant(-1)};
}

TEST(QuadraticFit, EqualsTheNormalEquations) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const std::vector<TimedLength> points = made_up(0.05, seed);
    const auto fit = fit_quadratic(points);
    ASSERT_TRUE(fit.has_value());
    const auto expected = by_normal_equations(points);
    EXPECT_NEAR(fit->a_s.value, static_cast<double>(expected[0]), 1e-9);
    EXPECT_NEAR(fit->b_s_per_token.value, static_cast<double>(expected[1]), kB * 1e-8);
    EXPECT_NEAR(fit->c_s_per_token2.value, static_cast<double>(expected[2]), kC * 1e-8);
  }
}

TEST(QuadraticFit, IntervalsHoldTheTruthNineteenTimesInTwenty) {
  constexpr int kSeeds = 1000;
  int a = 0;
  int b = 0;
  int c = 0;
  double error = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    const auto fit = fit_quadratic(made_up(0.02, seed));
    a += fit->a_s.low <= kA && kA <= fit->a_s.high ? 1 : 0;
    b += fit->b_s_per_token.low <= kB && kB <= fit->b_s_per_token.high ? 1 : 0;
    c += fit->c_s_per_token2.low <= kC && kC <= fit->c_s_per_token2.high ? 1 : 0;
    error += fit->relative_error * fit->relative_error / kSeeds;
  }
  // Of 1,000 the count has a standard deviation of 6.9; weights taken from noisy times cost a little.
  for (const int hits : {a, b, c}) {
    EXPECT_GE(hits, 929);
    EXPECT_LE(hits, 971);
  }
  EXPECT_NEAR(std::sqrt(error), 0.02, 0.002);
}

TEST(QuadraticFit, NeedsFourLengthsAndGoodTimes) {
  std::vector<TimedLength> points = made_up(0, 1);
  EXPECT_FALSE(fit_quadratic(std::span(points).first(3)).has_value());
  EXPECT_TRUE(fit_quadratic(std::span(points).first(4)).has_value());
  points[3].tokens = points[2].tokens;
  EXPECT_FALSE(fit_quadratic(std::span(points).first(4)).has_value()) << "three distinct lengths";
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), HUGE_VAL}) {
    points = made_up(0, 1);
    points[1].seconds = bad;
    EXPECT_FALSE(fit_quadratic(points).has_value()) << bad;
  }
}

}  // namespace
}  // namespace kvlab
