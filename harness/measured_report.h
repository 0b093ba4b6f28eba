// From measured cases to the report object that `run` and `sweep` write.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/ceilings.h"
#include "harness/measurement.h"

namespace kvlab {

struct ReportSource {
  std::string name;
  nlohmann::ordered_json sweep_config;
  std::vector<std::string> argv;
  int threads = 1;
  std::optional<Ceilings> ceilings;
  std::optional<nlohmann::ordered_json> environment;  // none: of this process, now
};

/// A case that no round was finished of becomes `skipped`, so that a report after an interruption is valid.
nlohmann::ordered_json measured_report(const std::vector<MeasuredCase>& cases, const ReportSource& source);

/// Whether any case gave the wrong output or none. An `invalid` row did its work; only its rates are not to be trusted.
bool any_case_failed(const nlohmann::ordered_json& report);

}  // namespace kvlab
