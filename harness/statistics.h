// Summaries of timings: percentiles by one rule, and an interval for the median that respects rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvlab {

/// The p-th percentile, 0 <= p <= 100, by linear interpolation between closest ranks: position p/100 (n - 1) in the
/// sorted samples, counted from 0 (rule 7 of Hyndman and Fan 1996, the default of NumPy). Throws std::invalid_argument
/// when there are no samples.
double percentile(std::span<const double> samples, double p);

double median(std::span<const double> samples);
double mean(std::span<const double> samples);

/// Median of |sample - median|: a spread that a few disturbed samples cannot move. Of normal samples it is 0.6745
/// standard deviations.
double median_absolute_deviation(std::span<const double> samples);

/// Samples below which a percentile says no more than the largest one: 10 for p90, 20 for p95, 100 for p99; 1
/// otherwise.
std::size_t least_samples(int p);

struct Interval {
  double low = 0;
  double high = 0;
};

/// A number with its 95 % interval.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// The p-th percentile of all samples pooled, of 1,000 redrawn sets: whole rounds are drawn with replacement, since
/// samples of one round share its conditions (Efron's bootstrap over clusters). The same input and seed give the same
/// draws. Empty with fewer than two rounds or an empty round.
std::vector<double> percentile_draws(std::span<const std::vector<double>> rounds, double p, std::uint64_t seed);

/// The middle 95 % of the draws of the median; nothing where there are none.
std::optional<Interval> median_interval(std::span<const std::vector<double>> rounds, std::uint64_t seed);

/// The mean of independent values with Student's interval, mean +- t s / sqrt(n). Nothing with fewer than two values,
/// or where one is not finite.
std::optional<Estimate> mean_estimate(std::span<const double> values);

/// The chance that Student's t with `degrees` >= 1 degrees of freedom is farther from 0 than `t`, by the finite series
/// for whole degrees (Abramowitz and Stegun 26.7.3 and 26.7.4).
double student_tail(double t, int degrees);

/// The t beyond which, on both sides, lies `tail` of Student's distribution; 0 < tail < 1.
double student_quantile(double tail, int degrees);

}  // namespace kvlab
