// Matches cases and metrics of two reports and judges them.
#include "harness/report_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "kernels/error.h"

namespace kvlab {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Rounds = std::vector<std::vector<double>>;

constexpr std::uint64_t kBootstrapSeed = 1;
constexpr std::array<const char*, 5> kByteMetrics = {"kv.bytes_per_token", "kv.used_bytes", "kv.reserved_bytes",
                                                     "kv.table_bytes", "kv.workspace_bytes"};

/// A metric that is a time at a percentile, or tokens over one.
struct TimedMetric {
  const char* name;  // a time's without its percentile
  Rounds (*rounds)(const ReportRow&);
  std::int64_t ReportRow::*tokens;  // null: the metric is the time itself
};

Rounds one_a_round(const std::vector<double>& values) {
  Rounds rounds;
  for (const double value : values) rounds.push_back({value});
  return rounds;
}

Rounds whole_decodes(const ReportRow& row) {
  Rounds rounds;
  for (const auto& steps : row.step_s) rounds.push_back({std::accumulate(steps.begin(), steps.end(), 0.0)});
  return rounds;
}

const std::array<TimedMetric, 4>& timed_metrics() {
  static const std::array<TimedMetric, 4> list = {
      {{"prefill.tokens_per_s", [](const ReportRow& row) { return one_a_round(row.prefill_s); },
        &ReportRow::prefill_tokens},
       {"decode.tokens_per_s", whole_decodes, &ReportRow::decode_tokens},
       {"latency.step_s", [](const ReportRow& row) { return row.step_s; }, nullptr},
       {"latency.ttft_s", [](const ReportRow& row) { return one_a_round(row.ttft_s); }, nullptr}}};
  return list;
}

json metric_of(const ReportRow& row, std::string path) {
  std::replace(path.begin(), path.end(), '.', '/');
  const json::json_pointer pointer("/" + path);
  return row.metrics.contains(pointer) ? row.metrics[pointer] : json();
}

std::string name_of(const TimedMetric& metric, std::int64_t percentile) {
  return metric.tokens != nullptr ? metric.name : fmt::format("{}.p{}", metric.name, percentile);
}

ComparedCell empty_cell(const ReportRow& base, const std::string& metric) {
  ComparedCell cell;
  cell.spec = base.spec;
  cell.label = base.label;
  cell.metric = metric;
  return cell;
}

double value_of(const TimedMetric& metric, const ReportRow& row, const Rounds& rounds, std::int64_t p) {
  std::vector<double> pooled;
  for (const auto& round : rounds) pooled.insert(pooled.end(), round.begin(), round.end());
  const double seconds = percentile(pooled, static_cast<double>(p));
  return metric.tokens != nullptr ? static_cast<double>(row.*metric.tokens) / seconds : seconds;
}

/// A report without samples still has its summary: the numbers are shown, but nothing tells noise from change.
std::optional<ComparedCell> cell_of_summaries(const TimedMetric& metric, const ReportRow& base,
                                              const ReportRow& other) {
  const std::string name = name_of(metric, 50);
  ComparedCell cell = empty_cell(base, name);
  cell.base = metric_of(base, name);
  cell.other = metric_of(other, name);
  if (!cell.base.is_number() || !cell.other.is_number() || !(cell.base.get<double>() > 0)) return std::nullopt;
  cell.ratio = cell.other.get<double>() / cell.base.get<double>();
  return cell;
}

std::optional<ComparedCell> timed_cell(const TimedMetric& metric, const ReportRow& base, const ReportRow& other,
                                       std::int64_t p) {
  const Rounds base_rounds = metric.rounds(base);
  const Rounds other_rounds = metric.rounds(other);
  if (base_rounds.empty() || other_rounds.empty()) return cell_of_summaries(metric, base, other);

  const TimeRatio time = compare_times(base_rounds, other_rounds, kBootstrapSeed, static_cast<double>(p));
  ComparedCell cell = empty_cell(base, name_of(metric, p));
  cell.base = value_of(metric, base, base_rounds, p);
  cell.other = value_of(metric, other, other_rounds, p);
  cell.chance_if_same = time.chance_if_same;
  cell.worse = time.ratio - 1;
  const bool rate = metric.tokens != nullptr;
  cell.ratio = rate ? 1 / time.ratio : time.ratio;
  if (time.ci95) {
    cell.low = rate ? 1 / time.ci95->high : time.ci95->low;
    cell.high = rate ? 1 / time.ci95->low : time.ci95->high;
  }
  return cell;
}

std::optional<ComparedCell> byte_cell(const char* metric, const ReportRow& base, const ReportRow& other) {
  ComparedCell cell = empty_cell(base, metric);
  cell.base = metric_of(base, metric);
  cell.other = metric_of(other, metric);
  if (!cell.base.is_number_integer() || !cell.other.is_number_integer()) return std::nullopt;
  const auto before = cell.base.get<std::int64_t>();
  const auto after = cell.other.get<std::int64_t>();
  cell.exact = true;
  cell.verdict = after == before ? Verdict::same : after < before ? Verdict::faster : Verdict::slower;
  if (before != 0 || after == 0) {
    cell.ratio = before == 0 ? 1 : static_cast<double>(after) / static_cast<double>(before);
    cell.low = cell.high = cell.ratio;
  }
  cell.worse = cell.ratio ? *cell.ratio - 1 : std::numeric_limits<double>::infinity();
  return cell;
}

void compare_rows(const ReportRow& base, const ReportRow& other, ReportComparison& comparison) {
  if (base.status != "ok" || other.status != "ok") {
    comparison.not_compared.emplace_back(base, other);
    return;
  }
  const auto add = [&](std::optional<ComparedCell> cell) {
    if (cell) comparison.cells.push_back(std::move(*cell));
  };
  for (const TimedMetric& metric : timed_metrics()) add(timed_cell(metric, base, other, comparison.percentile));
  for (const char* metric : kByteMetrics) add(byte_cell(metric, base, other));
  if (base.tokens_sha256 != other.tokens_sha256) comparison.other_tokens.push_back(base.label);
}

/// Verdicts need all chances at once.
void judge_timed_cells(std::vector<ComparedCell>& cells) {
  std::vector<double> chances;
  for (const ComparedCell& cell : cells) {
    if (cell.chance_if_same) chances.push_back(*cell.chance_if_same);
  }
  const std::vector<double> adjusted = control_false_discoveries(chances);
  std::size_t next = 0;
  for (ComparedCell& cell : cells) {
    if (!cell.chance_if_same) continue;
    const bool rate = cell.metric.ends_with("tokens_per_s");
    TimeRatio time;
    time.ratio = 1 + cell.worse;
    time.ci95 = rate ? Interval{1 / *cell.high, 1 / *cell.low} : Interval{*cell.low, *cell.high};
    cell.verdict = judge_ratio(time, adjusted[next++]);
  }
}

const ReportRow* twin_of(const ReportRow& row, const std::vector<ReportRow>& rows) {
  const auto twin = std::find_if(rows.begin(), rows.end(), [&](const ReportRow& r) { return r.spec == row.spec; });
  return twin == rows.end() ? nullptr : &*twin;
}

/// What keeps the first case of one report from being the first of the other.
std::string first_difference(const ReportRows& base, const ReportRows& other) {
  if (base.rows.empty() || other.rows.empty()) return "one of them has no case";
  const json difference = json::diff(base.rows.front().spec, other.rows.front().spec);
  const std::string path = difference.front().at("path");
  const json::json_pointer pointer(path);
  const auto value = [&](const ReportRows& rows) { return json(rows.rows.front().spec).value(pointer, json()).dump(); };
  return fmt::format("their first cases differ in {}: {} against {}", path.substr(1), value(base), value(other));
}

}  // namespace

ReportComparison compare_reports(const ReportRows& base, const ReportRows& other, std::int64_t percentile) {
  ReportComparison comparison;
  comparison.percentile = percentile;
  bool any_in_both = false;
  for (const ReportRow& row : base.rows) {
    if (const ReportRow* twin = twin_of(row, other.rows)) {
      any_in_both = true;
      compare_rows(row, *twin, comparison);
    } else {
      comparison.only_in_base.push_back(row);
    }
  }
  if (!any_in_both) {
    throw InputError(
        fmt::format("{} and {} have no case in common; a case is its model, variant, workload, device, "
                    "threads and seed: {}",
                    base.path, other.path, first_difference(base, other)));
  }
  for (const ReportRow& row : other.rows) {
    if (twin_of(row, base.rows) == nullptr) comparison.only_in_other.push_back(row);
  }
  judge_timed_cells(comparison.cells);
  if (base.cpu_model != other.cpu_model) {
    comparison.remarks.push_back(
        fmt::format("the reports come from different processors: {} and {}", base.cpu_model, other.cpu_model));
  }
  if (base.flags != other.flags) {
    comparison.remarks.push_back(
        fmt::format("the reports come from builds with different flags: \"{}\" and \"{}\"", base.flags, other.flags));
  }
  return comparison;
}

std::vector<std::string> regressions(const ReportComparison& comparison, double fail_above) {
  std::vector<std::string> list;
  for (const ComparedCell& cell : comparison.cells) {
    if (cell.verdict != Verdict::slower || !(cell.worse > fail_above)) continue;
    list.push_back(fmt::format("{} {}: {:.1f} % {}", cell.label, cell.metric, cell.worse * 100,
                               cell.exact ? "more bytes" : "slower"));
  }
  for (const auto& [base, other] : comparison.not_compared) {
    const bool harmless = other.status == "ok" || other.status == "skipped" || other.status == "invalid";
    if (base.status != "ok" || harmless) continue;
    list.push_back(fmt::format("{}: was ok and is {}: {}", base.label, other.status, other.reason));
  }
  return list;
}

}  // namespace kvlab
