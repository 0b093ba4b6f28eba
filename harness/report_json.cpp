// Writes reports, and reads back the cases in them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "harness/report.h"
#include "harness/report_fields.h"
#include "harness/scaling_fit.h"
#include "kernels/error.h"
#include "variants/registry.h"

namespace kvlab {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

void refuse_unknown_keys(const json& object, const std::string& where, const std::vector<std::string>& known) {
  if (!object.is_object()) throw InputError(where + " is not an object");
  for (const auto& item : object.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    throw InputError(fmt::format("{}: unknown key '{}'; known are {}", where, item.key(), fmt::join(known, ", ")));
  }
}

std::int64_t integer_or(const json& object, const std::string& where, const char* key, std::int64_t fallback) {
  if (!object.contains(key)) return fallback;
  if (!object[key].is_number_integer()) throw InputError(fmt::format("{}.{} is not a whole number", where, key));
  return object[key].get<std::int64_t>();
}

std::string text_or(const json& object, const char* key, const std::string& fallback) {
  if (!object.contains(key)) return fallback;
  if (!object[key].is_string()) throw InputError(fmt::format("case.{} is not a string", key));
  return object[key].get<std::string>();
}

Variant variant_from_json(const json& object) {
  std::vector<std::string> known;
  for (const Axis& axis : axes()) known.push_back(axis.name);
  refuse_unknown_keys(object, "case.variant", known);

  Variant variant;
  for (const Axis& axis : axes()) {
    if (!object.contains(axis.name)) continue;
    const json& value = object[axis.name];
    const bool fits = axis.integer ? value.is_number_integer() : value.is_string();
    if (!fits) {
      throw InputError(fmt::format("case.variant.{} is not a {}", axis.name, axis.integer ? "whole number" : "string"));
    }
    const std::string text = axis.integer ? std::to_string(value.get<std::int64_t>()) : value.get<std::string>();
    const bool names_both_phases = axis.name == "attention" && text.find('+') != std::string::npos;
    if (!names_both_phases) axis.set(variant, text);  // each phase has its own key as well
  }
  return variant;
}

Workload workload_from_json(const json& object) {
  refuse_unknown_keys(object, "case.workload", {"batch", "depth", "kv_fill", "prompt_tokens", "gen_tokens"});
  Workload workload;
  workload.batch = integer_or(object, "case.workload", "batch", workload.batch);
  workload.depth = integer_or(object, "case.workload", "depth", workload.depth);
  workload.kv_fill = parse_kv_fill("case.workload.kv_fill", text_or(object, "kv_fill", "prefill"));
  workload.prompt_tokens = integer_or(object, "case.workload", "prompt_tokens", workload.prompt_tokens);
  workload.gen_tokens = integer_or(object, "case.workload", "gen_tokens", workload.gen_tokens);
  return workload;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << '\n';
  file.close();
  if (!file) throw InputError(fmt::format("{}: cannot be written", path));
}

}  // namespace

std::string_view status_name(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::skipped:
      return "skipped";
    case Status::oom:
      return "oom";
    case Status::timeout:
      return "timeout";
    case Status::crash:
      return "crash";
    case Status::failed:
      return "failed";
    case Status::invalid:
      break;
  }
  return "invalid";
}

ordered_json case_json(const Case& spec) { return object_of_fields(case_fields(), "results[].case.", spec); }

Case case_from_json(const json& object) {
  refuse_unknown_keys(object, "case", {"model", "variant", "workload", "device", "threads", "seed"});
  Case spec;
  spec.model = text_or(object, "model", "");
  if (object.contains("variant")) spec.variant = variant_from_json(object["variant"]);
  if (object.contains("workload")) spec.workload = workload_from_json(object["workload"]);
  spec.device = text_or(object, "device", spec.device);
  spec.threads = static_cast<int>(integer_or(object, "case", "threads", spec.threads));
  if (object.contains("seed")) {
    if (!object["seed"].is_number_unsigned()) throw InputError("case.seed is not a whole number from 0");
    spec.seed = object["seed"].get<std::uint64_t>();
  }
  return spec;
}

ordered_json result_json(const CaseResult& result, const ModelConfig& config, const std::optional<Ceilings>& ceilings,
                         const std::optional<Hardware>& datasheet) {
  const JudgedResult judged = judge(result, config, ceilings, datasheet);
  ordered_json row;
  row["case"] = case_json(result.spec);
  row.update(object_of_fields(result_fields(), "results[].", judged));
  return row;
}

ordered_json report_json(const std::vector<ordered_json>& results, const std::optional<Ceilings>& ceilings,
                         const ordered_json& environment, const std::string& name, const ordered_json& sweep_config) {
  ordered_json report;
  report["schema"] = "kvlab.report/1";
  report["name"] = name;
  report["results"] = results;
  report["fits"] = fits_json(results);
  report["ceilings"] = ceilings ? object_of_fields(ceiling_fields(), "ceilings.", *ceilings) : ordered_json(nullptr);
  report["environment"] = environment;
  report["sweep"] = sweep_config;
  return report;
}

void write_json_file(const std::string& path, const ordered_json& value) {
  const std::string temporary = path + ".partial";
  write_text(temporary, value.dump(2, ' ', false, json::error_handler_t::replace));
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (!error) return;
  std::filesystem::remove(temporary);
  throw InputError(fmt::format("{}: cannot be written: {}", path, error.message()));
}

const std::vector<Field>& report_fields() {
  static const std::vector<Field> list = [] {
    std::vector<Field> fields = {
        {"schema", "", FieldSource::configured, "\"kvlab.report/1\"."},
        {"name", "", FieldSource::configured, "Name of the sweep, or \"run\"."},
    };
    const auto append = [&](const auto& part) {
      for (const auto& entry : part) fields.push_back(entry.field);
    };
    append(case_fields());
    append(result_fields());
    append(fit_fields());
    append(ceiling_fields());
    append(environment_fields());
    fields.push_back({"sweep", "", FieldSource::configured, "The sweep file as it was read; null for a single run."});
    return fields;
  }();
  return list;
}

std::string report_fields_markdown() {
  static const char* const kSources[] = {"measured", "modelled", "derived", "configured"};
  std::string page =
      "# Fields of a report\n\n"
      "Printed from the lists in `harness/report_fields.cpp`, `scaling_fit.cpp` and `environment.cpp`; "
      "`scripts/make_report_docs.sh` writes it anew.\n\n"
      "*measured*: timed, counted while running, or read from the system. *modelled*: bytes by the conventions of "
      "`harness/accounting.h`, counted while running. *derived*: computed from other fields. *configured*: asked "
      "for.\n\n"
      "A field is `null` where its number does not exist: metrics of a case that did not run, a percentile with too "
      "few "
      "samples. Sizes in square brackets are array shapes. GB is 10^9 bytes.\n\n"
      "| field | unit | source | meaning |\n| --- | --- | --- | --- |\n";
  for (const Field& field : report_fields()) {
    page += fmt::format("| `{}` | {} | {} | {} |\n", field.path, field.unit,
                        kSources[static_cast<std::size_t>(field.source)], field.sentence);
  }
  return page;
}

}  // namespace kvlab
