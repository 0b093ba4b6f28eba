// `kvlab compare`: two reports side by side, a gate on what became slower, and a peer's rows beside ours.
#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "harness/commands/commands.h"
#include "harness/llama_bench.h"
#include "harness/output_file.h"
#include "harness/report_comparison.h"
#include "kernels/error.h"

namespace kvlab {

namespace {

nlohmann::json read_json(const std::string& path, const std::string& kind) {
  auto json = nlohmann::json::parse(read_text_file("compare", path), nullptr, false);
  if (json.is_discarded()) throw InputError(fmt::format("{} is not {}: it is not JSON", path, kind));
  return json;
}

ReportRows read_report(const std::string& path) { return read_report_rows(path, read_json(path, "a kvlab report")); }

std::vector<PeerRow> read_peer(const std::string& path) {
  return read_llama_bench(path, read_json(path, "what `llama-bench -o json` writes"));
}

}  // namespace

int run_compare(const CompareRequest& request) {
  const ReportRows base = read_report(request.base);
  const ReportRows other = read_report(request.other);
  const ReportComparison comparison = compare_reports(base, other, request.percentile);
  std::optional<PeerComparison> peer;
  if (!request.llama_bench.empty()) peer = compare_with_peer(other, read_peer(request.llama_bench));

  OutputFile json("--json", request.json);
  if (!json.is_standard_output()) {
    write_standard_output(comparison_table(comparison) + (peer ? peer_table(*peer) : ""));
  }
  nlohmann::ordered_json whole = comparison_json(comparison);
  if (peer) whole["peers"] = peer_json(*peer);
  json.write_json(whole);

  const std::vector<std::string> worse = regressions(comparison, request.fail_above_percent / 100);
  for (const std::string& line : worse) fmt::print(stderr, "kvlab: regression: {}\n", line);
  return worse.empty() ? 0 : 1;
}

}  // namespace kvlab
