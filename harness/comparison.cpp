// Ratios of percentiles with intervals, and verdicts over many of them.
#include "harness/comparison.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvlab {
namespace {

constexpr double kTail = 0.05;  // both sides of a 95 % interval

std::vector<double> pooled(std::span<const std::vector<double>> rounds) {
  std::vector<double> samples;
  for (const auto& round : rounds) samples.insert(samples.end(), round.begin(), round.end());
  return samples;
}

/// Squared standard error of the log of the percentile; nothing with too few rounds for it.
std::optional<double> log_percentile_variance(std::span<const std::vector<double>> rounds, double p,
                                              std::uint64_t seed) {
  if (static_cast<double>(rounds.size()) * std::min(p, 100 - p) < 100) return std::nullopt;
  std::vector<double> logs = percentile_draws(rounds, p, seed);
  if (logs.empty()) return std::nullopt;
  const double first = logs.front();
  for (double& value : logs) value = std::log(value / first);  // exactly 0 where all draws agree
  const double center = mean(logs);
  double squares = 0;
  for (const double value : logs) squares += (value - center) * (value - center);
  const auto n = static_cast<double>(rounds.size());
  return squares / static_cast<double>(logs.size()) * n / (n - 1);
}

/// Welch and Satterthwaite's degrees of freedom, rounded down; at least 1.
int degrees_of_freedom(double variance_a, std::size_t n_a, double variance_b, std::size_t n_b) {
  const double total = variance_a + variance_b;
  const double spread =
      variance_a * variance_a / static_cast<double>(n_a - 1) + variance_b * variance_b / static_cast<double>(n_b - 1);
  return std::max(1, static_cast<int>(total * total / spread));
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::same:
      return "same";
    case Verdict::unclear:
      break;
  }
  return "unclear";
}

TimeRatio compare_times(std::span<const std::vector<double>> base, std::span<const std::vector<double>> other,
                        std::uint64_t seed, double p) {
  TimeRatio result;
  if (std::equal(base.begin(), base.end(), other.begin(), other.end())) return {1, Interval{1, 1}, 1};
  result.ratio = percentile(pooled(other), p) / percentile(pooled(base), p);
  const auto base_variance = log_percentile_variance(base, p, seed);
  const auto other_variance = log_percentile_variance(other, p, seed + 1);
  if (!base_variance || !other_variance) return result;

  const double error = std::sqrt(*base_variance + *other_variance);
  if (!(error > 0)) {  // all draws agree
    result.ci95 = Interval{result.ratio, result.ratio};
    result.chance_if_same = result.ratio == 1 ? 1.0 : 0.0;
    return result;
  }
  const int degrees = degrees_of_freedom(*base_variance, base.size(), *other_variance, other.size());
  const double reach = student_quantile(kTail, degrees) * error;
  result.ci95 = Interval{result.ratio * std::exp(-reach), result.ratio * std::exp(reach)};
  result.chance_if_same = student_tail(std::log(result.ratio) / error, degrees);
  return result;
}

std::vector<double> control_false_discoveries(std::span<const double> chances) {
  std::vector<std::size_t> order(chances.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return chances[a] < chances[b]; });
  std::vector<double> adjusted(chances.size());
  double least = 1;
  for (std::size_t rank = order.size(); rank > 0; --rank) {
    const std::size_t which = order[rank - 1];
    least = std::min(least, chances[which] * static_cast<double>(order.size()) / static_cast<double>(rank));
    adjusted[which] = least;
  }
  return adjusted;
}

Verdict judge_ratio(const TimeRatio& ratio, std::optional<double> adjusted_chance) {
  if (!ratio.ci95 || !adjusted_chance) return Verdict::unclear;
  const bool differs = *adjusted_chance <= kFalseDiscoveryRate;
  if (differs && ratio.ratio > 1 + kNegligible) return Verdict::slower;
  if (differs && ratio.ratio < 1 / (1 + kNegligible)) return Verdict::faster;
  const bool within = ratio.ci95->low > 1 / (1 + kVisible) && ratio.ci95->high < 1 + kVisible;
  return within ? Verdict::same : Verdict::unclear;
}

}  // namespace kvlab
