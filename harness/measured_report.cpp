// Gathers results, ceilings and environment into one report object.
#include "harness/measured_report.h"

#include <algorithm>

#include "harness/report.h"

namespace kvlab {

nlohmann::ordered_json measured_report(const std::vector<MeasuredCase>& cases, const ReportSource& source) {
  std::vector<nlohmann::ordered_json> results;
  for (const MeasuredCase& measured : cases) {
    CaseResult result = measured.result;
    if (measured.open() && measured.rounds.empty()) {
      result.status = Status::skipped;
      result.reason = "interrupted before its first round was finished";
    }
    results.push_back(result_json(result, measured.config, source.ceilings));
  }
  return report_json(results, source.ceilings, environment_json(source.argv, source.threads), source.name,
                     source.sweep_config);
}

Ceilings higher_ceilings(const Ceilings& a, const Ceilings& b) {
  Ceilings higher;
  higher.read_bytes_per_s = std::max(a.read_bytes_per_s, b.read_bytes_per_s);
  higher.copy_bytes_per_s = std::max(a.copy_bytes_per_s, b.copy_bytes_per_s);
  higher.gemm_flops_per_s_f32 = std::max(a.gemm_flops_per_s_f32, b.gemm_flops_per_s_f32);
  higher.gemm_flops_per_s_bf16 = std::max(a.gemm_flops_per_s_bf16, b.gemm_flops_per_s_bf16);
  return higher;
}

bool any_case_failed(const nlohmann::ordered_json& report) {
  for (const nlohmann::ordered_json& result : report.at("results")) {
    const std::string status = result.at("status");
    const bool harmless = status == status_name(Status::ok) || status == status_name(Status::skipped) ||
                          status == status_name(Status::invalid);
    if (!harmless) return true;
  }
  return false;
}

}  // namespace kvlab
