// Reads the rows of a report back, and says what is wrong with a file that is none.
#include <fmt/format.h>

#include <algorithm>

#include "harness/measurement.h"
#include "harness/report.h"
#include "harness/report_comparison.h"
#include "kernels/error.h"

namespace kvlab {
namespace {

using nlohmann::json;

/// Reads keys of one object; complaints name the file and the path to the key.
class Reader {
 public:
  Reader(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) throw InputError(where_ + " is not an object");
  }

  const json& at(const char* key) const {
    if (!object_.contains(key)) throw InputError(fmt::format("{}.{} is missing", where_, key));
    return object_[key];
  }
  const json& array(const char* key) const {
    if (!at(key).is_array()) refuse(key, "an array");
    return at(key);
  }
  std::string text(const char* key) const {
    if (!at(key).is_string()) refuse(key, "a string");
    return at(key).get<std::string>();
  }
  std::string text_or_empty(const char* key) const {
    return object_.contains(key) && !object_[key].is_null() ? text(key) : "";
  }
  [[noreturn]] void refuse(const char* key, const char* wanted) const {
    throw InputError(fmt::format("{}.{} is not {}", where_, key, wanted));
  }

 private:
  const json& object_;
  std::string where_;
};

/// A time in seconds; 0 stands for null.
double seconds(const json& value, const Reader& reader, const char* key) {
  if (value.is_null()) return 0;
  if (!value.is_number() || !(value.get<double>() > 0)) reader.refuse(key, "made of positive numbers or null");
  return value.get<double>();
}

std::vector<double> times(const json& values, const Reader& reader, const char* key) {
  if (!values.is_array()) reader.refuse(key, "an array of arrays");
  std::vector<double> list;
  for (const json& value : values) list.push_back(seconds(value, reader, key));
  return list;
}

void read_samples(const json& object, const std::string& where, ReportRow& row) {
  const Reader samples(object, where);
  const auto whole = [](const std::vector<double>& round) {
    return !round.empty() && std::find(round.begin(), round.end(), 0.0) == round.end();
  };
  row.ttft_s = times(samples.array("ttft_s"), samples, "ttft_s");
  row.prefill_s = times(samples.array("prefill_s"), samples, "prefill_s");
  std::erase(row.ttft_s, 0.0);
  std::erase(row.prefill_s, 0.0);
  for (const json& round : samples.array("step_s")) {
    std::vector<double> steps = times(round, samples, "step_s");
    if (whole(steps)) row.step_s.push_back(std::move(steps));
  }
}

ReportRow read_row(const json& object, const std::string& where) {
  const Reader result(object, where);
  ReportRow row;
  try {
    const Case spec = case_from_json(result.at("case"));
    row.spec = case_json(spec);
    row.label = fmt::format("{}: {}", spec.model, case_label(spec));
    row.prefill_tokens = spec.workload.batch * spec.workload.prompt_tokens;
    row.decode_tokens = spec.workload.batch * std::max<std::int64_t>(spec.workload.gen_tokens - 1, 0);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", where, error.what()));
  }
  row.status = result.text("status");
  row.reason = result.text_or_empty("reason");
  if (row.status != "ok") return row;

  read_samples(result.at("samples"), where + ".samples", row);
  row.metrics = result.at("metrics");
  if (object.contains("output")) {
    row.tokens_sha256 = Reader(object["output"], where + ".output").text_or_empty("tokens_sha256");
  }
  return row;
}

/// "" where there is no text.
std::string text_at(const json& report, const char* place) {
  const json::json_pointer pointer(place);
  return report.contains(pointer) && report[pointer].is_string() ? report[pointer].get<std::string>() : std::string();
}

}  // namespace

ReportRows read_report_rows(const std::string& path, const json& report) {
  if (!report.is_object() || report.value("schema", json()) != "kvlab.report/1") {
    throw InputError(fmt::format("{} is not a kvlab report: \"schema\" is not \"kvlab.report/1\"", path));
  }
  ReportRows read;
  read.path = path;
  read.cpu_model = text_at(report, "/environment/cpu/model");
  read.flags = text_at(report, "/environment/flags");
  const json& results = Reader(report, path).array("results");
  for (std::size_t i = 0; i < results.size(); ++i) {
    ReportRow row = read_row(results[i], fmt::format("{}: results[{}]", path, i));
    const auto twin = std::find_if(read.rows.begin(), read.rows.end(),
                                   [&](const ReportRow& earlier) { return earlier.spec == row.spec; });
    if (twin != read.rows.end()) {
      throw InputError(fmt::format("{}: results[{}] is a case that it holds already: {}", path, i, row.label));
    }
    read.rows.push_back(std::move(row));
  }
  return read;
}

}  // namespace kvlab
