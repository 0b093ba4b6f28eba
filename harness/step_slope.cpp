// Theil and Sen's slope of each round, and what the rounds say together.
#include "harness/step_slope.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace kvlab {
namespace {

constexpr std::size_t kMostPoints = 1000;  // half a million pairs

/// Medians of runs of `run` neighbours; a shorter run at the end is left out.
std::vector<double> medians_of_runs(std::span<const double> y, std::size_t run) {
  std::vector<double> medians;
  for (std::size_t first = 0; first + run <= y.size(); first += run) medians.push_back(median(y.subspan(first, run)));
  return medians;
}

}  // namespace

double theil_sen_slope(std::span<const double> y) {
  if (y.size() < 2) throw std::invalid_argument("theil_sen_slope: fewer than two points");
  const std::size_t run = (y.size() + kMostPoints - 1) / kMostPoints;
  const std::vector<double> points = medians_of_runs(y, run);
  std::vector<double> slopes;
  slopes.reserve(points.size() * (points.size() - 1) / 2);
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      slopes.push_back((points[j] - points[i]) / static_cast<double>((j - i) * run));
    }
  }
  return median(slopes);
}

std::optional<Estimate> step_slope(std::span<const std::vector<double>> step_s) {
  std::vector<double> slopes;
  for (const std::vector<double>& round : step_s) {
    const bool finite = std::all_of(round.begin(), round.end(), [](double seconds) { return std::isfinite(seconds); });
    if (round.size() < kLeastSlopeSteps || !finite) return std::nullopt;
    slopes.push_back(theil_sen_slope(round));
  }
  return mean_estimate(slopes);
}

}  // namespace kvlab
