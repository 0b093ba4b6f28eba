// Says when a machine was too noisy for the numbers of a row to be taken as they stand. Thresholds and their reasons:
// docs/measuring.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case.h"

namespace kvlab {

/// What several rounds together were disturbed by.
struct RunConditions {
  std::int64_t n_rounds = 0;
  int cpus = 0;  // 0: the system tells nothing
  double wall_s = 0;
  double other_cpus = 0;      // that other processes kept busy, on average
  double steal_fraction = 0;  // of the CPU time of all CPUs
  double quota_fraction = 0;  // of the wall time
  std::int64_t thermal_events = 0;
  double least_mhz = 0;  // of the rounds' clocks; 0: unknown
  double most_mhz = 0;
  std::uint64_t gpu_slowdowns = 0;

  /// How far the two CPU times may be off because the system counts them in ticks: three standard deviations.
  double tick_error_cpus() const;
};
RunConditions conditions_of(std::span<const Disturbance> rounds);

inline constexpr double kMostOtherCpus = 0.05;  // for each core that the run leaves free, and at least once
inline constexpr double kMostSteal = 0.01;
inline constexpr double kMostQuota = 0.01;
inline constexpr double kMostClockRatio = 1.05;
inline constexpr double kMostSpread = 0.05;

/// Interquartile range over the median of the rounds' median steps (or prefills, where no step was made); 0 for fewer
/// than two rounds.
double spread_of_rounds(const Samples& samples);

inline constexpr std::string_view kNoisePrefix = "noise: ";
/// A sentence for each kind of noise, each begins with the prefix. Empty for a quiet machine.
std::vector<std::string> noise_warnings(const CaseResult& result);

}  // namespace kvlab
