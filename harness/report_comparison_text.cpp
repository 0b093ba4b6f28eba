// A comparison as JSON and as lines for the terminal.
#include <fmt/format.h>

#include "harness/quantities.h"
#include "harness/report_comparison.h"
#include "harness/text_table.h"

namespace kvlab {
namespace {

using nlohmann::ordered_json;

ordered_json or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json cases_json(const std::vector<ReportRow>& rows) {
  ordered_json list = ordered_json::array();
  for (const ReportRow& row : rows) list.push_back(row.spec);
  return list;
}

/// Seconds as milliseconds, rates as they are, bytes in full.
std::string number(const ordered_json& value, const ComparedCell& cell) {
  if (cell.exact) return grouped(value.get<std::int64_t>());
  if (cell.metric.starts_with("latency.")) return fmt::format("{:.3f} ms", value.get<double>() * 1e3);
  return fmt::format("{:.1f}", value.get<double>());
}

std::string interval(const ComparedCell& cell) {
  if (cell.exact) return "exact";
  return cell.low ? fmt::format("{:.3f} ... {:.3f}", *cell.low, *cell.high) : "too few rounds";
}

std::string names(const std::string& heading, const std::vector<std::string>& labels) {
  std::string text;
  for (const std::string& label : labels) text += fmt::format("{}: {}\n", heading, label);
  return text;
}

std::vector<std::string> labels_of(const std::vector<ReportRow>& rows) {
  std::vector<std::string> labels;
  for (const ReportRow& row : rows) labels.push_back(row.label);
  return labels;
}

std::string unclear_hint(std::int64_t percentile) {
  if (percentile < 50) return "unclear: the rounds spread too far; more of them would tell\n";
  return "unclear: the rounds spread too far; more of them would tell, or `--percentile 10` where neighbours on the "
         "machine slow many of them\n";
}

std::string counts(const ReportComparison& comparison) {
  std::size_t n[4] = {0, 0, 0, 0};  // [faster, slower, same, unclear] of timed cells
  std::size_t n_bytes = 0;
  std::size_t n_equal = 0;
  for (const ComparedCell& cell : comparison.cells) {
    if (cell.exact) {
      ++n_bytes;
      if (cell.verdict == Verdict::same) ++n_equal;
    } else {
      ++n[static_cast<std::size_t>(cell.verdict)];
    }
  }
  std::string text = fmt::format(
      "times at their {}: {} faster, {} slower, {} same, {} unclear; memory: {} of {} numbers equal\n"
      "faster and slower: more than {:.0f} %, of which {:.0f} % may be chance; same: a difference of {:.0f} % would "
      "have been seen\n",
      comparison.percentile == 50 ? "median" : fmt::format("{}th percentile", comparison.percentile), n[0], n[1], n[2],
      n[3], n_equal, n_bytes, kNegligible * 100, kFalseDiscoveryRate * 100, kVisible * 100);
  if (n[3] > 0) text += unclear_hint(comparison.percentile);
  return text;
}

}  // namespace

ordered_json comparison_json(const ReportComparison& comparison) {
  ordered_json whole;
  whole["percentile"] = comparison.percentile;
  whole["cells"] = ordered_json::array();
  for (const ComparedCell& cell : comparison.cells) {
    ordered_json json;
    json["case"] = cell.spec;
    json["metric"] = cell.metric;
    json["base"] = cell.base;
    json["new"] = cell.other;
    json["ratio"] = or_null(cell.ratio);
    json["low"] = or_null(cell.low);
    json["high"] = or_null(cell.high);
    json["verdict"] = verdict_name(cell.verdict);
    whole["cells"].push_back(json);
  }
  whole["only_in_base"] = cases_json(comparison.only_in_base);
  whole["only_in_new"] = cases_json(comparison.only_in_other);
  whole["not_compared"] = ordered_json::array();
  for (const auto& [base, other] : comparison.not_compared) {
    whole["not_compared"].push_back({{"case", base.spec}, {"base_status", base.status}, {"new_status", other.status}});
  }
  return whole;
}

std::string comparison_table(const ReportComparison& comparison) {
  std::vector<std::vector<std::string>> lines = {
      {"case", "metric", "base", "new", "new / base", "95 % interval", "verdict"}};
  for (const ComparedCell& cell : comparison.cells) {
    if (cell.exact && cell.verdict == Verdict::same) continue;
    lines.push_back(
        {cell.label, cell.metric, number(cell.base, cell), number(cell.other, cell),
         cell.ratio ? fmt::format("{:.3f}", *cell.ratio) : "-", interval(cell),
         std::string(cell.exact ? (cell.verdict == Verdict::faster ? "fewer" : "more") : verdict_name(cell.verdict))});
  }
  std::string text = aligned(lines, 2) + counts(comparison);
  text += names("only in the base", labels_of(comparison.only_in_base));
  text += names("only in the new report", labels_of(comparison.only_in_other));
  for (const auto& [base, other] : comparison.not_compared) {
    text +=
        fmt::format("not compared: {}: {} in the base, {} in the new report\n", base.label, base.status, other.status);
  }
  text += names("other tokens than before", comparison.other_tokens);
  return text + names("remark", comparison.remarks);
}

}  // namespace kvlab
