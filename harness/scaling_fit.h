// Prefill time by prompt length over the cases of a report that differ in nothing else (SPEC S14): a + b n + c n^2,
// with the quadratic part beside attention's share of the FLOPs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/quadratic_fit.h"
#include "harness/report_fields.h"

namespace kvlab {

/// A fit of one family of cases. Arrays have an entry per prompt length, ascending.
struct ScalingFit {
  nlohmann::ordered_json family;        // the case that they share, without prompt_tokens
  std::vector<std::int64_t> lengths;    // prompt tokens
  std::vector<double> prefill_s;        // medians over rounds
  std::vector<double> attention_share;  // of the FLOPs
  QuadraticFit fit;
};

/// Of results as `result_json` wrote them; only cases that are ok count. Families with fewer than four lengths have no
/// fit.
std::vector<ScalingFit> scaling_fits(const std::vector<nlohmann::ordered_json>& results);

const std::vector<FieldOf<ScalingFit>>& fit_fields();  // fits[]. ...

/// The report's `fits` array.
nlohmann::ordered_json fits_json(const std::vector<nlohmann::ordered_json>& results);

/// One entry of `fits` as lines for the terminal.
std::string fit_text(const nlohmann::ordered_json& fit);

}  // namespace kvlab
