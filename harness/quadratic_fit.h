// Least squares for time = a + b n + c n^2 when the error of a time grows with the time.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "harness/statistics.h"

namespace kvlab {

struct TimedLength {
  double tokens;
  double seconds;
};

struct QuadraticFit {
  Estimate a_s;
  Estimate b_s_per_token;
  Estimate c_s_per_token2;
  std::vector<double> fitted_s;  // [points]
  double relative_error = 0;     // standard deviation of (time - fit) / time, with n - 3 degrees of freedom

  double quadratic_share(double tokens) const;  // c n^2 over the whole fitted time
};

/// Three coefficients and at least one degree of freedom for their error.
constexpr std::size_t kLeastLengths = 4;

/// Minimises the sum of ((time - fit) / time)^2: timing noise is nearly a constant fraction, and 0.2 s must count
/// beside 60 s. The intervals are Student's with n - 3 degrees of freedom from the residuals, so that they hold both
/// the noise and whatever no parabola describes. Nothing with fewer than kLeastLengths distinct lengths, or where a
/// time is not positive and finite.
std::optional<QuadraticFit> fit_quadratic(std::span<const TimedLength> points);

}  // namespace kvlab
