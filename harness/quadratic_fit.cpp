// The three columns are made orthogonal one after another (modified Gram-Schmidt): squaring them into normal equations
// would lose half of the digits where lengths span two orders of magnitude.
#include "harness/quadratic_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

namespace kvlab {
namespace {

constexpr std::size_t kCoefficients = 3;
using Column = std::vector<double>;
using Triangle = std::array<std::array<double, kCoefficients>, kCoefficients>;  // upper, by row

double dot(const Column& a, const Column& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

void subtract(Column& from, double factor, const Column& column) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= factor * column[i];
}

/// Makes `columns` orthonormal; columns = Q R, and returns R.
Triangle orthonormalise(std::array<Column, kCoefficients>& columns) {
  Triangle r{};
  for (std::size_t j = 0; j < kCoefficients; ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      r[i][j] = dot(columns[i], columns[j]);
      subtract(columns[j], r[i][j], columns[i]);
    }
    r[j][j] = std::sqrt(dot(columns[j], columns[j]));
    for (double& value : columns[j]) value /= r[j][j];
  }
  return r;
}

/// x with R x = y.
std::array<double, kCoefficients> solve(const Triangle& r, std::array<double, kCoefficients> y) {
  for (std::size_t i = kCoefficients; i-- > 0;) {
    for (std::size_t j = i + 1; j < kCoefficients; ++j) y[i] -= r[i][j] * y[j];
    y[i] /= r[i][i];
  }
  return y;
}

/// Diagonal of (R^T R)^-1: squared lengths of the rows of R^-1.
std::array<double, kCoefficients> inverse_diagonal(const Triangle& r) {
  std::array<double, kCoefficients> diagonal{};
  for (std::size_t j = 0; j < kCoefficients; ++j) {
    std::array<double, kCoefficients> unit{};
    unit[j] = 1;
    const std::array<double, kCoefficients> column = solve(r, unit);
    for (std::size_t i = 0; i < kCoefficients; ++i) diagonal[i] += column[i] * column[i];
  }
  return diagonal;
}

bool can_be_fitted(std::span<const TimedLength> points) {
  std::set<double> lengths;
  for (const TimedLength& point : points) {
    if (!(point.seconds > 0) || !std::isfinite(point.seconds)) return false;
    lengths.insert(point.tokens);
  }
  return lengths.size() >= kLeastLengths;
}

}  // namespace

double QuadraticFit::quadratic_share(double tokens) const {
  const double quadratic = c_s_per_token2.value * tokens * tokens;
  return quadratic / (a_s.value + b_s_per_token.value * tokens + quadratic);
}

std::optional<QuadraticFit> fit_quadratic(std::span<const TimedLength> points) {
  if (!can_be_fitted(points)) return std::nullopt;
  double longest = 0;
  for (const TimedLength& point : points) longest = std::max(longest, point.tokens);

  std::array<Column, kCoefficients> columns;  // weight * (1, x, x^2), x = tokens / longest
  for (const TimedLength& point : points) {
    double power = 1 / point.seconds;
    for (Column& column : columns) {
      column.push_back(power);
      power *= point.tokens / longest;
    }
  }
  const Triangle r = orthonormalise(columns);
  Column rest(points.size(), 1.0);  // weight * seconds
  std::array<double, kCoefficients> projected{};
  for (std::size_t j = 0; j < kCoefficients; ++j) {
    projected[j] = dot(columns[j], rest);
    subtract(rest, projected[j], columns[j]);
  }
  const auto degrees = static_cast<int>(points.size() - kCoefficients);
  const double variance = dot(rest, rest) / degrees;
  const std::array<double, kCoefficients> coefficients = solve(r, projected);
  const std::array<double, kCoefficients> spread = inverse_diagonal(r);

  QuadraticFit fit;
  const double t = student_quantile(0.05, degrees);
  double unit = 1;
  for (std::size_t j = 0; j < kCoefficients; ++j, unit /= longest) {
    Estimate& estimate = j == 0 ? fit.a_s : j == 1 ? fit.b_s_per_token : fit.c_s_per_token2;
    const double half = t * std::sqrt(variance * spread[j]);
    estimate = {coefficients[j] * unit, (coefficients[j] - half) * unit, (coefficients[j] + half) * unit};
  }
  for (std::size_t i = 0; i < points.size(); ++i) fit.fitted_s.push_back(points[i].seconds * (1 - rest[i]));
  fit.relative_error = std::sqrt(variance);
  return fit;
}

}  // namespace kvlab
