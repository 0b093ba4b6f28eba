// `kvlab compare`: two reports side by side, and a gate on what became slower.
#include <fmt/format.h>

#include <cstdio>

#include "harness/commands/commands.h"
#include "harness/output_file.h"
#include "harness/report_comparison.h"
#include "kernels/error.h"

namespace kvlab {

namespace {

ReportRows read_report(const std::string& path) {
  const auto json = nlohmann::json::parse(read_text_file("compare", path), nullptr, false);
  if (json.is_discarded()) throw InputError(fmt::format("{} is not a kvlab report: it is not JSON", path));
  return read_report_rows(path, json);
}

}  // namespace

int run_compare(const CompareRequest& request) {
  const ReportRows base = read_report(request.base);
  const ReportRows other = read_report(request.other);
  const ReportComparison comparison = compare_reports(base, other);
  OutputFile json("--json", request.json);
  if (!json.is_standard_output()) write_standard_output(comparison_table(comparison));
  json.write_json(comparison_json(comparison));

  const std::vector<std::string> worse = regressions(comparison, request.fail_above_percent / 100);
  for (const std::string& line : worse) fmt::print(stderr, "kvlab: regression: {}\n", line);
  return worse.empty() ? 0 : 1;
}

}  // namespace kvlab
