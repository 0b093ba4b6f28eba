// Two sets of timings of the same thing: by how much they differ, and whether that is more than noise. Pure arithmetic;
// harness/report_comparison.h brings in reports.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "harness/statistics.h"

namespace kvlab {

enum class Verdict { faster, slower, same, unclear };

std::string_view verdict_name(Verdict verdict);

/// New time over base time. Above 1: slower.
struct TimeRatio {
  double ratio = 1;
  std::optional<Interval> ci95;          // none: too few rounds on one side
  std::optional<double> chance_if_same;  // of a ratio as far from 1, when nothing changed (a p value)
};

/// Compares the p-th percentiles of all samples pooled, 0 < p < 100. Rounds, not samples, are what was drawn
/// independently: the standard error of each log percentile comes from redrawn rounds, widened by n / (n - 1) because
/// few rounds understate their spread, and the interval uses Student's t with Welch's degrees of freedom. Rounds of two
/// runs share no conditions, so they are not paired: a pair would only cost degrees of freedom. The very same samples
/// are one measurement, and its ratio is 1. All samples are positive; neither side is without samples. An interval
/// needs one round, on average, beyond the percentile: 2 for the median, 10 for the 10th percentile.
TimeRatio compare_times(std::span<const std::vector<double>> base, std::span<const std::vector<double>> other,
                        std::uint64_t seed, double p = 50);

/// Chances adjusted so that, of all comparisons then taken for differences at a level, at most that share is expected
/// to be false (Benjamini and Hochberg 1995). In the order given.
std::vector<double> control_false_discoveries(std::span<const double> chances);

/// A difference smaller than this is not called one, however sure: between two starts of one program, the layout of
/// memory alone can move a time by that much.
constexpr double kNegligible = 0.03;
/// "same" promises that a difference of this size would have been seen.
constexpr double kVisible = 0.10;
constexpr double kFalseDiscoveryRate = 0.05;

/// faster or slower: the adjusted chance is at most kFalseDiscoveryRate and the ratio is farther than kNegligible
/// from 1. same: otherwise, when the interval lies within kVisible of 1. unclear: all else; more rounds would tell.
Verdict judge_ratio(const TimeRatio& ratio, std::optional<double> adjusted_chance);

}  // namespace kvlab
