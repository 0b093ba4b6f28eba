// Results that no machine measured, for the report's tests: counters by formula, times of our choosing.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "harness/accounting.h"
#include "harness/case.h"
#include "harness/ceilings.h"
#include "harness/report.h"
#include "tests/harness/shapes.h"

namespace kvlab::made_up {

/// A row that can be right: toy, prompt 5, `gen` tokens, times of a millisecond and a little more each round.
inline CaseResult ok_result(std::size_t rounds = 3, std::int64_t gen = 48) {
  CaseResult result;
  result.spec.model = "toy";
  result.spec.workload = {1, 0, 5, gen};
  const ModelConfig config = testing_shapes::toy();
  result.prefill_work = prefill_work(config, result.spec.variant, result.spec.workload);
  result.decode_work = decode_work(config, result.spec.variant, result.spec.workload);
  result.kv = {96, 96 * (5 + gen - 1), 96 * 64, 0, 96 * 64};
  result.workspace_bytes = 1000;
  result.output = {ids_sha256({{0, 3, 7, 1, 9}}), ids_sha256({{5, 5}}), {5, 5}};
  result.samples.step_rows = {5, 1, 1};
  result.samples.step_dots = {15, 6, 7};
  for (std::size_t round = 0; round < rounds; ++round) {
    const double offset = 1e-5 * static_cast<double>(round);
    result.samples.ttft_s.push_back(2e-3 + offset);
    result.samples.prefill_s.push_back(1e-3 + offset);
    result.samples.step_s.emplace_back(static_cast<std::size_t>(gen - 1), 1e-3 + offset);
  }
  return result;
}

inline CaseResult unsuccessful(Status status, const std::string& reason) {
  CaseResult result;
  result.spec.model = "toy";
  result.spec.workload = {1, 0, 5, 48};
  result.status = status;
  result.reason = reason;
  return result;
}

/// Far above what the made-up times reach.
inline Ceilings ceilings() { return {30e9, 25e9, 300e9, 100e9}; }

/// A family of `lengths` cases that differ in the prompt's length alone; their prefill takes 1e-3 + 1e-5 n + 1e-8 n^2
/// s.
inline std::vector<CaseResult> prompt_lengths(int lengths) {
  std::vector<CaseResult> results;
  const ModelConfig config = testing_shapes::toy();
  for (std::int64_t n = 16; lengths-- > 0; n *= 2) {
    CaseResult result = ok_result(3, 1);
    result.spec.workload.prompt_tokens = n;
    result.prefill_work = prefill_work(config, result.spec.variant, result.spec.workload);
    const auto tokens = static_cast<double>(n);
    result.samples.prefill_s.assign(3, 1e-3 + 1e-5 * tokens + 1e-8 * tokens * tokens);
    result.samples.ttft_s = result.samples.prefill_s;
    results.push_back(result);
  }
  return results;
}

inline nlohmann::ordered_json row(const CaseResult& result) {
  return result_json(result, testing_shapes::toy(), ceilings());
}

/// A row of every status.
inline std::vector<nlohmann::ordered_json> rows_of_every_status() {
  std::vector<nlohmann::ordered_json> rows = {row(ok_result()), row(ok_result(1, 1))};
  for (const Status status : {Status::skipped, Status::oom, Status::timeout, Status::crash, Status::failed}) {
    rows.push_back(row(unsuccessful(status, "a reason")));
  }
  CaseResult impossible = ok_result();
  impossible.samples.ttft_s[1] = -1;
  rows.push_back(row(impossible));
  for (const CaseResult& result : prompt_lengths(5)) rows.push_back(row(result));
  return rows;
}

inline nlohmann::ordered_json whole_report() {
  return report_json(rows_of_every_status(), ceilings(), environment_json({"kvlab", "run"}, 2), "test",
                     {{"name", "test"}});
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::filesystem::path source(const std::string& path) { return std::filesystem::path(KVLAB_SOURCE_DIR) / path; }

}  // namespace kvlab::made_up
