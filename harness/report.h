// The report (INTERFACES.md): one list of fields with unit, source and sentence; writer, tables and docs/report.md come
// from it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/ceilings.h"
#include "harness/hardware.h"
#include "model/model_config.h"

namespace kvlab {

enum class FieldSource { measured, modelled, derived, configured };

struct Field {
  std::string path;  // "results[].metrics.decode.mbu"
  std::string unit;  // "s", "bytes", "1", "bytes/s", ""
  FieldSource source;
  std::string sentence;
};

/// Every field of the report, in order.
const std::vector<Field>& report_fields();
/// docs/report.md, generated from the list.
std::string report_fields_markdown();

std::string_view status_name(Status status);

nlohmann::ordered_json case_json(const Case& spec);
/// The case that `case_json` wrote. Throws InputError on unknown keys or values.
Case case_from_json(const nlohmann::json& json);

/// One entry of `results`. `config` is the model's own (before re-heading). Null where a number does not exist.
nlohmann::ordered_json result_json(const CaseResult& result, const ModelConfig& config,
                                   const std::optional<Ceilings>& ceilings,
                                   const std::optional<Hardware>& datasheet = std::nullopt);

/// The `environment` object; argv as given to main; `rounds` of all cases.
nlohmann::ordered_json environment_json(const std::vector<std::string>& argv, int threads,
                                        std::span<const Disturbance> rounds = {});

/// The whole report. `results` come from result_json.
nlohmann::ordered_json report_json(const std::vector<nlohmann::ordered_json>& results,
                                   const std::optional<Ceilings>& ceilings, const nlohmann::ordered_json& environment,
                                   const std::string& name, const nlohmann::ordered_json& sweep_config);

/// Strict JSON (never NaN: such a number is written as null), 2-space indent, written to a temporary file and renamed.
/// Throws InputError naming the path when it cannot be written.
void write_json_file(const std::string& path, const nlohmann::ordered_json& json);

/// A plain-text table of a report, for the terminal: a line per case.
std::string report_table(const nlohmann::ordered_json& report);

/// Lower-case hex SHA-256 of ids as little-endian int32.
std::string ids_sha256(const std::vector<std::vector<std::int32_t>>& sequences);

}  // namespace kvlab
