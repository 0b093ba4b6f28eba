// Two reports side by side: cases matched by identity, metrics by name, a verdict for each pair.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/comparison.h"

namespace kvlab {

/// A case of a report, read back.
struct ReportRow {
  nlohmann::ordered_json spec;  // as case_json writes it: axes that a report leaves out have their default
  std::string label;
  std::string status;
  std::string reason;
  std::string tokens_sha256;
  nlohmann::json metrics;                              // an object, or null
  std::vector<double> ttft_s;                          // [rounds]
  std::vector<double> prefill_s;                       // [rounds]
  std::vector<std::vector<double>> step_s;             // [rounds][gen_tokens - 1]
  std::int64_t prefill_tokens = 0, decode_tokens = 0;  // of all sequences in a round
};

struct ReportRows {
  std::string path;
  std::string cpu_model;
  std::string flags;  // of the build
  std::vector<ReportRow> rows;
};

/// Rounds that hold a null are left out. Throws InputError naming path and key for what is no kvlab report, or holds a
/// case twice.
ReportRows read_report_rows(const std::string& path, const nlohmann::json& report);

/// A metric of one case in both reports. Null where a number does not exist.
struct ComparedCell {
  nlohmann::ordered_json spec;
  std::string label;
  std::string metric;  // the field's path below results[].metrics
  nlohmann::ordered_json base, other;
  std::optional<double> ratio, low, high;  // other / base; low to high is a 95 % interval
  Verdict verdict = Verdict::unclear;
  double worse = 0;    // longer time, or more bytes, as a fraction of the base; infinite where the base is 0 bytes
  bool exact = false;  // bytes, which have no noise

  std::optional<double> chance_if_same;
};

struct ReportComparison {
  std::vector<ComparedCell> cells;
  std::vector<ReportRow> only_in_base, only_in_other;
  std::vector<std::pair<ReportRow, ReportRow>> not_compared;  // one of the two did not end well
  std::vector<std::string> other_tokens;                      // labels of cases that chose other tokens than before
  std::vector<std::string> remarks;
  std::int64_t percentile = 50;  // at which times were compared
};

/// Times are compared by `compare_times` at a percentile from 1 to 99, with false discoveries controlled over all of
/// them; for rates, faster is a higher number. Bytes are compared exactly: fewer count as faster, more as slower.
/// Throws InputError when no case is in both.
ReportComparison compare_reports(const ReportRows& base, const ReportRows& other, std::int64_t percentile = 50);

/// Cells that are slower by more than this fraction, and cases that ended well only in the base.
std::vector<std::string> regressions(const ReportComparison& comparison, double fail_above);

/// {"cells": [{"case", "metric", "base", "new", "ratio", "low", "high", "verdict"}], ...}, and the cases left out.
nlohmann::ordered_json comparison_json(const ReportComparison& comparison);

/// For the terminal: a line per timed cell, the byte counts that differ, and what was left out.
std::string comparison_table(const ReportComparison& comparison);

}  // namespace kvlab
