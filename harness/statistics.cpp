// Percentiles, the bootstrap of the median, and Student's distribution.
#include "harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>

#include "kernels/random.h"

namespace kvlab {
namespace {

constexpr int kDraws = 1000;

struct Tagged {
  double value;
  std::size_t round;
};

/// The value at 0-based rank `rank` when every sample counts as often as its round was drawn.
double value_at_rank(std::span<const Tagged> sorted, std::span<const std::size_t> times_drawn, std::size_t rank) {
  std::size_t passed = 0;
  for (const Tagged& sample : sorted) {
    passed += times_drawn[sample.round];
    if (passed > rank) return sample.value;
  }
  return sorted.back().value;
}

std::vector<Tagged> sort_with_rounds(std::span<const std::vector<double>> rounds) {
  std::vector<Tagged> sorted;
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    for (const double value : rounds[round]) sorted.push_back({value, round});
  }
  std::sort(sorted.begin(), sorted.end(), [](const Tagged& a, const Tagged& b) { return a.value < b.value; });
  return sorted;
}

}  // namespace

double percentile(std::span<const double> samples, double p) {
  if (samples.empty() || !(p >= 0 && p <= 100))
    throw std::invalid_argument("percentile: no samples, or p outside 0..100");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double position = p / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double median(std::span<const double> samples) { return percentile(samples, 50); }

double mean(std::span<const double> samples) {
  if (samples.empty()) throw std::invalid_argument("mean: no samples");
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double median_absolute_deviation(std::span<const double> samples) {
  const double middle = median(samples);
  std::vector<double> deviations;
  for (const double sample : samples) deviations.push_back(std::abs(sample - middle));
  return median(deviations);
}

std::size_t least_samples(int p) {
  if (p >= 99) return 100;
  if (p >= 95) return 20;
  return p >= 90 ? 10 : 1;
}

std::vector<double> percentile_draws(std::span<const std::vector<double>> rounds, double p, std::uint64_t seed) {
  const bool has_empty = std::any_of(rounds.begin(), rounds.end(), [](const auto& round) { return round.empty(); });
  if (rounds.size() < 2 || has_empty) return {};

  const std::vector<Tagged> sorted = sort_with_rounds(rounds);
  std::uint64_t stream = seed;
  std::vector<double> values;
  std::vector<std::size_t> times_drawn(rounds.size());
  for (int draw = 0; draw < kDraws; ++draw) {
    std::fill(times_drawn.begin(), times_drawn.end(), 0);
    std::size_t n_samples = 0;
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const std::size_t round = next_random(stream) % rounds.size();
      ++times_drawn[round];
      n_samples += rounds[round].size();
    }
    const double position = p / 100 * static_cast<double>(n_samples - 1);
    const double rank = std::floor(position);
    const double lower = value_at_rank(sorted, times_drawn, static_cast<std::size_t>(rank));
    const double upper = value_at_rank(sorted, times_drawn, static_cast<std::size_t>(std::ceil(position)));
    values.push_back(lower + (upper - lower) * (position - rank));
  }
  return values;
}

std::optional<Interval> median_interval(std::span<const std::vector<double>> rounds, std::uint64_t seed) {
  const std::vector<double> medians = percentile_draws(rounds, 50, seed);
  if (medians.empty()) return std::nullopt;
  return Interval{percentile(medians, 2.5), percentile(medians, 97.5)};
}

std::optional<Estimate> mean_estimate(std::span<const double> values) {
  const bool finite = std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  if (values.size() < 2 || !finite) return std::nullopt;
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  const auto n = static_cast<double>(values.size());
  const int degrees = static_cast<int>(values.size()) - 1;
  const double half = student_quantile(0.05, degrees) * std::sqrt(squares / degrees / n);
  return Estimate{middle, middle - half, middle + half};
}

double student_tail(double t, int degrees) {
  if (degrees < 1 || std::isnan(t)) throw std::invalid_argument("student_tail: no degrees of freedom, or t is NaN");
  const double angle = std::atan(std::abs(t) / std::sqrt(static_cast<double>(degrees)));
  const double cosine = std::cos(angle);
  const bool odd = degrees % 2 == 1;
  double term = odd ? cosine : 1;
  double sum = degrees == 1 ? 0 : term;
  for (int k = odd ? 3 : 2; k <= degrees - 2; k += 2) {
    term *= cosine * cosine * (k - 1) / k;
    sum += term;
  }
  const double inside = odd ? 2 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
  return std::max(0.0, 1 - inside);
}

double student_quantile(double tail, int degrees) {
  if (!(tail > 0 && tail < 1)) throw std::invalid_argument("student_quantile: tail outside 0..1");
  double low = 0;
  double high = 1;
  while (student_tail(high, degrees) > tail) high *= 2;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = low + (high - low) / 2;
    (student_tail(middle, degrees) > tail ? low : high) = middle;
  }
  return high;
}

}  // namespace kvlab
