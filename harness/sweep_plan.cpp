// Arithmetic on the formulas of harness/accounting.h.
#include "harness/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "harness/accounting.h"
#include "harness/output_check.h"
#include "harness/text_table.h"

namespace kvlab {

namespace {

std::int64_t flops(const WorkCounters& work) { return work.gemm_flops + work.attention_flops; }

std::int64_t bytes(const WorkCounters& work) { return work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes; }

double phase_s(const WorkCounters& work, double flops_per_s, double bytes_per_s) {
  return std::max(static_cast<double>(flops(work)) / flops_per_s, static_cast<double>(bytes(work)) / bytes_per_s);
}

/// The case that `spec` is compared with; its run serves all cases that share it.
Case reference_of(Case spec, const ModelConfig& config) {
  spec.variant = reference_variant(spec, config);
  return spec;
}

/// Runs of the output checks: each case once, and each reference that is no case of its own once.
double planned_checks_s(const std::vector<MeasuredCase>& cases, const Ceilings& ceilings) {
  std::vector<Case> runs;
  double seconds = 0;
  const auto add = [&](const Case& spec, const ModelConfig& config) {
    if (std::find(runs.begin(), runs.end(), spec) != runs.end()) return;
    runs.push_back(spec);
    seconds += planned_round_s(spec, config, ceilings);
  };
  for (const MeasuredCase& measured : cases) {
    add(measured.result.spec, measured.config);
    add(reference_of(measured.result.spec, measured.config), measured.config);
  }
  return seconds;
}

std::vector<std::string> line_of(const MeasuredCase& measured, double round_s) {
  const Case& spec = measured.result.spec;
  const WorkCounters prefill = prefill_work(measured.config, spec.variant, spec.workload);
  const WorkCounters decode = decode_work(measured.config, spec.variant, spec.workload);
  const auto giga = [](std::int64_t value, int decimals) {
    return fmt::format("{:.{}f}", static_cast<double>(value) / 1e9, decimals);
  };
  return {std::filesystem::path(spec.model).filename().string(),
          case_label(spec),
          giga(flops(prefill) + flops(decode), 3),
          giga(bytes(prefill) + bytes(decode), 3),
          giga(stored_weight_bytes(measured.config, spec.variant), 3),
          giga(kv_reserved_bytes(measured.config, spec.variant, spec.workload.batch, reserved_capacity(spec)), 3),
          fmt::format("{:.3f}", round_s)};
}

}  // namespace

double planned_round_s(const Case& spec, const ModelConfig& config, const Ceilings& ceilings) {
  const double flops_per_s = kPlannedShare * (spec.variant.weight_dtype == DType::f32 ? ceilings.gemm_flops_per_s_f32
                                                                                      : ceilings.gemm_flops_per_s_bf16);
  const double bytes_per_s = kPlannedShare * ceilings.read_bytes_per_s;
  return phase_s(prefill_work(config, spec.variant, spec.workload), flops_per_s, bytes_per_s) +
         phase_s(decode_work(config, spec.variant, spec.workload), flops_per_s, bytes_per_s);
}

std::string sweep_plan_text(const std::vector<MeasuredCase>& cases, const RoundPolicy& policy,
                            const Ceilings& ceilings) {
  std::vector<std::vector<std::string>> lines = {
      {"model", "case", "GFLOP", "GB moved", "weights GB", "KV GB", "round s"}};
  double rounds_s = 0;
  for (const MeasuredCase& measured : cases) {
    const double round_s = planned_round_s(measured.result.spec, measured.config, ceilings);
    rounds_s += round_s;
    lines.push_back(line_of(measured, round_s));
  }
  const double checks_s = planned_checks_s(cases, ceilings);
  const double least_s = checks_s + rounds_s * static_cast<double>(policy.min);
  const double most_s =
      std::max(least_s, std::min(policy.budget_s, checks_s + rounds_s * static_cast<double>(policy.max)));
  return aligned(lines, 2) + fmt::format(
                                 "{} cases: {} with {} rounds of each, at most {}, at {:.0f} % of the ceilings "
                                 "(read {:.1f} GB/s, products {:.0f} GFLOP/s f32, {:.0f} bf16)\n",
                                 cases.size(), clock_text(least_s), policy.min, clock_text(most_s), 100 * kPlannedShare,
                                 ceilings.read_bytes_per_s / 1e9, ceilings.gemm_flops_per_s_f32 / 1e9,
                                 ceilings.gemm_flops_per_s_bf16 / 1e9);
}

}  // namespace kvlab
