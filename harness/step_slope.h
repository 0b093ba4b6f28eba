// How much longer a decode step takes per token that is in the cache already: the price of attention over it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "harness/statistics.h"

namespace kvlab {

/// Steps that a round needs; fewer say more of noise than of a slope.
constexpr std::size_t kLeastSlopeSteps = 8;

/// The median of the slopes between all pairs of points (0, y[0]), (1, y[1]), ... (Theil 1950, Sen 1968): up to 29 % of
/// the points may be disturbed at will. Beyond 1,000 points, medians of equal runs of neighbours stand for them. Throws
/// std::invalid_argument with fewer than two points.
double theil_sen_slope(std::span<const double> y);

/// Seconds per position from the steps of each round, one position apart: the mean of the rounds' Theil-Sen slopes,
/// with Student's interval over rounds, since steps of one round share its conditions. Nothing with fewer than two
/// rounds, a round below kLeastSlopeSteps, or a time that is not finite.
std::optional<Estimate> step_slope(std::span<const std::vector<double>> step_s);

}  // namespace kvlab
