// Compares what disturbed the rounds of a row with the thresholds.
#include "harness/noise.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "harness/nvml.h"
#include "harness/statistics.h"

namespace kvlab {

double RunConditions::tick_error_cpus() const {
  // Each CPU's counter is rounded down to a tick at both ends of a round: a difference of two uniform errors.
  const double tick_s = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  const double deviation_s = tick_s * std::sqrt(static_cast<double>(cpus) * static_cast<double>(n_rounds) / 6);
  return wall_s > 0 ? 3 * deviation_s / wall_s : 0;
}

RunConditions conditions_of(std::span<const Disturbance> rounds) {
  RunConditions sum;
  double steal_s = 0;
  double other_s = 0;
  double quota_s = 0;
  for (const Disturbance& round : rounds) {
    ++sum.n_rounds;
    sum.cpus = std::max(sum.cpus, round.cpus);
    sum.wall_s += round.wall_s;
    steal_s += round.steal_s;
    other_s += round.other_cpu_s;
    quota_s += round.quota_s;
    sum.thermal_events += round.thermal_events;
    sum.gpu_slowdowns |= round.gpu_slowdowns;
    if (round.cpu_mhz <= 0) continue;
    sum.least_mhz = sum.least_mhz > 0 ? std::min(sum.least_mhz, round.cpu_mhz) : round.cpu_mhz;
    sum.most_mhz = std::max(sum.most_mhz, round.cpu_mhz);
  }
  if (sum.wall_s <= 0) return sum;
  sum.other_cpus = std::max(0.0, other_s / sum.wall_s);
  sum.quota_fraction = quota_s / sum.wall_s;
  if (sum.cpus > 0) sum.steal_fraction = steal_s / sum.wall_s / sum.cpus;
  return sum;
}

double spread_of_rounds(const Samples& samples) {
  std::vector<double> rounds;
  for (std::size_t round = 0; round < samples.prefill_s.size(); ++round) {
    const bool stepped = round < samples.step_s.size() && !samples.step_s[round].empty();
    rounds.push_back(stepped ? median(samples.step_s[round]) : samples.prefill_s[round]);
  }
  if (rounds.size() < 2) return 0;
  return (percentile(rounds, 75) - percentile(rounds, 25)) / median(rounds);
}

std::vector<std::string> noise_warnings(const CaseResult& result) {
  const RunConditions conditions = conditions_of(result.disturbances);
  const double error_cpus = conditions.tick_error_cpus();
  const int free_cores = std::max(1, conditions.cpus - result.spec.threads);
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(std::string(kNoisePrefix) + text); };

  if (conditions.other_cpus > kMostOtherCpus * free_cores + error_cpus) {
    warn(fmt::format("other processes kept {:.2f} of {} CPUs busy", conditions.other_cpus, conditions.cpus));
  }
  if (conditions.steal_fraction * conditions.cpus > kMostSteal * conditions.cpus + error_cpus) {
    warn(fmt::format("the hypervisor took {:.1f} % of the CPU time", 100 * conditions.steal_fraction));
  }
  if (conditions.quota_fraction > kMostQuota) {
    warn(fmt::format("a CPU quota stopped the program for {:.1f} % of the time", 100 * conditions.quota_fraction));
  }
  if (conditions.thermal_events > 0) {
    warn(fmt::format("heat lowered a core's clock, {} times", conditions.thermal_events));
  }
  if (conditions.most_mhz > kMostClockRatio * conditions.least_mhz) {
    warn(fmt::format("the clock was {:.0f} to {:.0f} MHz after a round", conditions.least_mhz, conditions.most_mhz));
  }
  if (conditions.gpu_slowdowns != 0) {
    warn(fmt::format("the GPU's clock was lowered: {}", fmt::join(clock_event_names(conditions.gpu_slowdowns), ", ")));
  }
  if (const double spread = spread_of_rounds(result.samples); spread > kMostSpread) {
    warn(fmt::format("the middle half of the rounds spreads over {:.1f} % of the median", 100 * spread));
  }
  return warnings;
}

}  // namespace kvlab
