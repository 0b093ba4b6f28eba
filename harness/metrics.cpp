// Metrics of a case. Rates divide by the median round; whatever has no samples stays absent.
#include "harness/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "harness/accounting.h"
#include "harness/machine.h"
#include "harness/noise.h"
#include "harness/step_slope.h"
#include "harness/work_difference.h"

namespace kvlab {
namespace {

constexpr std::uint64_t kBootstrapSeed = 1;
// Ceilings are measured seconds or minutes apart from the case, and shared machines drift: up to here it is a remark.
constexpr double kCeilingSlack = 1.5;

using Rounds = std::vector<std::vector<double>>;

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

Rounds one_sample_a_round(const std::vector<double>& values) {
  Rounds rounds;
  for (const double value : values) rounds.push_back({value});
  return rounds;
}

Summary summarise(const std::string& name, const Rounds& rounds, std::vector<std::string>& warnings) {
  std::vector<double> pooled;
  for (const auto& round : rounds) pooled.insert(pooled.end(), round.begin(), round.end());
  Summary summary;
  if (pooled.empty()) return summary;

  std::vector<std::string> left_out;
  const auto percentile_or_warning = [&](int p) -> std::optional<double> {
    if (pooled.size() >= least_samples(p)) return percentile(pooled, p);
    left_out.push_back(fmt::format("p{} (needs {})", p, least_samples(p)));
    return std::nullopt;
  };
  summary.mean = mean(pooled);
  summary.p50 = percentile_or_warning(50);
  summary.p90 = percentile_or_warning(90);
  summary.p95 = percentile_or_warning(95);
  summary.p99 = percentile_or_warning(99);
  summary.max = *std::max_element(pooled.begin(), pooled.end());
  summary.mad = median_absolute_deviation(pooled);
  summary.ci95 = median_interval(rounds, kBootstrapSeed);
  if (!left_out.empty()) {
    warnings.push_back(
        fmt::format("{}: {} left out, there are {} samples", name, fmt::join(left_out, ", "), pooled.size()));
  }
  if (!summary.ci95) warnings.push_back(fmt::format("{}: ci95 left out, it needs 2 rounds", name));
  return summary;
}

/// What the rates of a phase are held against.
struct Roofs {
  std::optional<double> flops_per_s;  // of products with the case's weights
  std::optional<double> read_bytes_per_s;
  std::optional<Hardware> datasheet;
};

Roofs roofs_of(const CaseResult& result, const std::optional<Ceilings>& ceilings,
               const std::optional<Hardware>& datasheet) {
  Roofs roofs;
  roofs.datasheet = datasheet;
  if (!ceilings) return roofs;
  roofs.flops_per_s =
      result.spec.variant.weight_dtype == DType::f32 ? ceilings->gemm_flops_per_s_f32 : ceilings->gemm_flops_per_s_bf16;
  roofs.read_bytes_per_s = ceilings->read_bytes_per_s;
  return roofs;
}

/// All of it but what was attained.
Roofline roofline_of(const PhaseMetrics& phase, const Roofs& roofs) {
  Roofline roofline;
  if (!phase.flops || !phase.bytes || *phase.bytes <= 0) return roofline;
  roofline.intensity = static_cast<double>(*phase.flops) / static_cast<double>(*phase.bytes);
  if (!roofs.flops_per_s || !roofs.read_bytes_per_s) return roofline;
  const double slope_flops_per_s = *roofline.intensity * *roofs.read_bytes_per_s;
  roofline.attainable_flops_per_s = std::min(*roofs.flops_per_s, slope_flops_per_s);
  roofline.bound_by_compute = *roofs.flops_per_s < slope_flops_per_s;
  return roofline;
}

/// A phase of `tokens` tokens that takes the median of `round_s`.
PhaseMetrics phase_metrics(const WorkCounters& work, std::int64_t tokens, const std::vector<double>& round_s,
                           const Roofs& roofs, DType weight_dtype) {
  PhaseMetrics phase;
  const std::int64_t flops = work.gemm_flops + work.attention_flops;
  phase.flops = flops;
  phase.bytes = work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes;
  phase.roofline = roofline_of(phase, roofs);
  if (flops > 0) phase.attention_share = static_cast<double>(work.attention_flops) / static_cast<double>(flops);
  if (round_s.empty() || tokens == 0) return phase;
  const double seconds = median(round_s);
  phase.tokens_per_s = static_cast<double>(tokens) / seconds;
  phase.flops_per_s = static_cast<double>(flops) / seconds;
  if (roofs.flops_per_s) phase.mfu = *phase.flops_per_s / *roofs.flops_per_s;
  if (phase.roofline.attainable_flops_per_s) {
    phase.roofline.attained_share = *phase.flops_per_s / *phase.roofline.attainable_flops_per_s;
  }
  if (roofs.datasheet) {
    phase.datasheet_mfu = *phase.flops_per_s / roofs.datasheet->flops_per_s(weight_dtype);
    phase.datasheet_mbu = static_cast<double>(*phase.bytes) / seconds / roofs.datasheet->memory_bytes_per_s;
  }
  return phase;
}

void add_bandwidth(Metrics& metrics, const CaseResult& result, const std::vector<double>& decode_s,
                   const std::optional<Ceilings>& ceilings) {
  const std::int64_t n_steps = result.spec.workload.gen_tokens - 1;
  if (n_steps < 1) return;
  const WorkCounters& work = result.decode_work;
  const auto bytes = static_cast<double>(work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes);
  metrics.bytes_per_step = bytes / static_cast<double>(n_steps);
  if (decode_s.empty()) return;
  metrics.bytes_per_s = bytes / median(decode_s);
  if (ceilings) metrics.mbu = *metrics.bytes_per_s / ceilings->read_bytes_per_s;
}

void add_shares(Metrics& metrics, const Samples& samples, const std::vector<double>& decode_s) {
  std::vector<double> whole_s;
  std::vector<double> decode_share;
  for (std::size_t round = 0; round < std::min(samples.ttft_s.size(), decode_s.size()); ++round) {
    whole_s.push_back(samples.ttft_s[round] + decode_s[round]);
    decode_share.push_back(decode_s[round] / whole_s.back());
  }
  if (whole_s.empty()) return;
  metrics.e2e_s = median(whole_s);
  metrics.decode_share = median(decode_share);
  metrics.prefill_share = 1 - *metrics.decode_share;
}

/// Median step of the last quarter of a generation over that of the first: 1 where a step costs the same at any length.
std::optional<double> step_growth(const Rounds& step_s) {
  std::vector<double> early;
  std::vector<double> late;
  for (const auto& round : step_s) {
    const auto quarter = static_cast<std::ptrdiff_t>(round.size() / 4);
    if (quarter < 2) return std::nullopt;
    early.insert(early.end(), round.begin(), round.begin() + quarter);
    late.insert(late.end(), round.end() - quarter, round.end());
  }
  if (early.empty()) return std::nullopt;
  return median(late) / median(early);
}

/// Absent without decode steps; otherwise absent with a warning that says why.
std::optional<Estimate> slope_or_warning(const Rounds& step_s, std::vector<std::string>& warnings) {
  if (step_s.empty() || step_s.front().empty()) return std::nullopt;
  const std::optional<Estimate> slope = step_slope(step_s);
  if (!slope) {
    warnings.push_back(
        fmt::format("latency.step_slope_s_per_token left out: it needs 2 rounds of {} steps, there are {} of {}",
                    kLeastSlopeSteps, step_s.size(), step_s.front().size()));
  }
  return slope;
}

Metrics compute(const CaseResult& result, const std::optional<Ceilings>& ceilings,
                const std::optional<Hardware>& datasheet, std::vector<std::string>& warnings) {
  const Workload& workload = result.spec.workload;
  const Samples& samples = result.samples;
  std::vector<double> decode_s;
  for (const auto& round : samples.step_s) decode_s.push_back(sum(round));

  const Roofs roofs = roofs_of(result, ceilings, datasheet);
  const DType weights = result.spec.variant.weight_dtype;
  const std::int64_t n_steps = std::max<std::int64_t>(workload.gen_tokens - 1, 0);
  Metrics metrics;
  metrics.prefill =
      phase_metrics(result.prefill_work, workload.batch * workload.prompt_tokens, samples.prefill_s, roofs, weights);
  metrics.decode = phase_metrics(result.decode_work, workload.batch * n_steps, decode_s, roofs, weights);
  add_bandwidth(metrics, result, decode_s, ceilings);
  metrics.ttft_s = summarise("latency.ttft_s", one_sample_a_round(samples.ttft_s), warnings);
  metrics.step_s = summarise("latency.step_s", samples.step_s, warnings);
  metrics.device_step_s = summarise("latency.device_step_s", samples.device_step_s, warnings);
  add_shares(metrics, samples, decode_s);
  metrics.step_growth = step_growth(samples.step_s);
  metrics.step_slope_s_per_token = slope_or_warning(samples.step_s, warnings);
  if (result.kv.reserved_bytes > 0) {
    metrics.waste_fraction =
        1 - static_cast<double>(result.kv.used_bytes) / static_cast<double>(result.kv.reserved_bytes);
  }
  return metrics;
}

/// Why the raw times cannot be right; "" when nothing speaks against them.
std::string fault_of_times(const CaseResult& result) {
  const Samples& samples = result.samples;
  if (samples.ttft_s.empty() || samples.prefill_s.empty()) return "no round was timed";
  const auto good = [](double seconds) { return seconds > 0 && std::isfinite(seconds); };
  const auto fault = [&](const char* name, const std::vector<double>& values) -> std::string {
    const auto bad = std::find_if_not(values.begin(), values.end(), good);
    return bad == values.end() ? "" : fmt::format("a time is not positive: {} holds {}", name, *bad);
  };
  std::string text = fault("ttft_s", samples.ttft_s);
  if (text.empty()) text = fault("prefill_s", samples.prefill_s);
  for (const auto& round : samples.step_s) {
    if (text.empty()) text = fault("step_s", round);
  }
  return text;
}

/// Rates above what the machine can do; a warning where there is an innocent reason.
std::string fault_of_rates(const Metrics& metrics, std::vector<std::string>& warnings) {
  const auto cache_bytes = static_cast<double>(last_level_cache_bytes());
  const std::vector<std::pair<std::string, std::optional<double>>> ratios = {
      {"prefill.mfu", metrics.prefill.mfu}, {"decode.mfu", metrics.decode.mfu}, {"decode.mbu", metrics.mbu}};
  for (const auto& [name, ratio] : ratios) {
    if (!ratio || *ratio <= 1) continue;
    const std::string text = fmt::format("{} is {:.2f}: above the measured ceiling", name, *ratio);
    if (name == "decode.mbu" && *metrics.bytes_per_step <= cache_bytes) {
      warnings.push_back(text + ", which does not bound a step whose bytes fit the last-level cache");
    } else if (*ratio <= kCeilingSlack) {
      warnings.push_back(text + "; the machine was busier when that was measured");
    } else {
      return text;
    }
  }
  return "";
}

}  // namespace

JudgedResult judge(const CaseResult& result, const ModelConfig& config, const std::optional<Ceilings>& ceilings,
                   const std::optional<Hardware>& datasheet) {
  JudgedResult judged{result, std::nullopt};
  if (result.status != Status::ok && result.status != Status::invalid) return judged;

  CaseResult& row = judged.result;
  std::string fault = fault_of_times(result);
  judged.metrics = Metrics{};
  if (fault.empty()) {
    judged.metrics = compute(result, ceilings, datasheet, row.warnings);
    for (const std::string& warning : noise_warnings(result)) row.warnings.push_back(warning);
  }
  judged.metrics->kv = kv_memory(result, config);
  judged.metrics->work = result.prefill_work;
  judged.metrics->work += result.decode_work;
  if (fault.empty()) fault = work_difference(result.spec, config, result.prefill_work, result.decode_work);
  if (fault.empty()) fault = fault_of_rates(*judged.metrics, row.warnings);
  if (!fault.empty() && result.status == Status::ok) {
    row.status = Status::invalid;
    row.reason = fault;
  }
  return judged;
}

}  // namespace kvlab
