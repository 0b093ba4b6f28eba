// Gathers results, ceilings and environment into one report object.
#include "harness/measured_report.h"

#include "harness/environment.h"
#include "harness/report.h"

namespace kvlab {

nlohmann::ordered_json measured_report(const std::vector<MeasuredCase>& cases, const ReportSource& source) {
  std::vector<nlohmann::ordered_json> results;
  std::vector<Disturbance> rounds;
  for (const MeasuredCase& measured : cases) {
    CaseResult result = measured.result;
    if (measured.open() && measured.rounds.empty()) {
      result.status = Status::skipped;
      result.reason = "interrupted before its first round was finished";
    }
    results.push_back(
        result_json(result, measured.config, source.ceilings, hardware_of_device(device_name(result.spec.device))));
    rounds.insert(rounds.end(), result.disturbances.begin(), result.disturbances.end());
  }
  return report_json(results, source.ceilings,
                     source.environment ? *source.environment : environment_json(source.argv, source.threads, rounds),
                     source.name, source.sweep_config);
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
