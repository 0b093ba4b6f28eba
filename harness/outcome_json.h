// An outcome as a line of JSON: what results.jsonl stores and what a worker answers.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "harness/case_runner.h"

namespace kvlab {

/// {case, round, status, reason | samples, warnings, counted, kv, output}. `number`: null for a check, and for what
/// ended the case.
nlohmann::ordered_json outcome_json(const Case& spec, std::optional<std::int64_t> number, const CaseOutcome& outcome);
/// What `outcome_json` wrote, without the tokens of the round. Throws std::exception for anything else.
CaseOutcome outcome_from_json(const nlohmann::json& line);

}  // namespace kvlab
