// `kvlab merge`: the shards of one sweep become the folder that an undivided sweep would have written.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "harness/ceilings_json.h"
#include "harness/commands/commands.h"
#include "harness/measured_report.h"
#include "harness/model_configs.h"
#include "harness/output_file.h"
#include "harness/progress.h"
#include "harness/report.h"
#include "harness/round_store.h"
#include "harness/sweep_config.h"
#include "harness/sweep_folder.h"
#include "kernels/error.h"

namespace kvlab {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ShardFolder {
  std::string path;
  Json report;
  RoundStore rounds;
};

ShardFolder open_shard(const std::string& path) {
  const std::string report_path = (fs::path(path) / "report.json").string();
  if (!fs::exists(report_path)) {
    throw InputError(
        fmt::format("merge: {} holds no report.json; a sweep that was killed writes it after --resume", path));
  }
  Json report = Json::parse(read_text_file("merge", report_path), nullptr, false);
  if (!report.is_object() || report.value("schema", "") != "kvlab.report/1" || !report.contains("sweep") ||
      !report["sweep"].is_object()) {
    throw InputError(fmt::format("merge: {} is not the report of a sweep", report_path));
  }
  return {path, std::move(report), RoundStore(path)};
}

std::string cpu_of(const ShardFolder& shard) {
  return shard.report.value(Json::json_pointer("/environment/cpu/model"), Json()).dump();
}

void refuse_strangers(const std::vector<ShardFolder>& shards) {
  const ShardFolder& first = shards.front();
  for (const ShardFolder& shard : shards) {
    if (shard.report["sweep"] != first.report["sweep"]) {
      throw InputError(fmt::format("merge: {} and {} are of different sweep files", first.path, shard.path));
    }
    if (cpu_of(shard) != cpu_of(first)) {
      throw InputError(fmt::format("merge: {} ran on {}, {} on {}; `kvlab compare` sets two machines side by side",
                                   first.path, cpu_of(first), shard.path, cpu_of(shard)));
    }
  }
}

/// The cases of the undivided sweep, in its order, none measured yet.
std::vector<MeasuredCase> cases_of_sweep(const ShardFolder& shard, const SweepConfig& config) {
  const Case first = case_from_json(shard.report["results"].at(0).at("case"));
  ModelConfigs models(config.seed);
  std::vector<MeasuredCase> cases;
  for (const Case& spec : sweep_cases(config, {}, first.device, first.threads)) {
    MeasuredCase measured;
    measured.result.spec = spec;
    measured.config = models.of(spec.model).config;
    cases.push_back(measured);
  }
  return cases;
}

/// The same cases with the rounds that a shard holds.
std::vector<MeasuredCase> cases_of_shard(const ShardFolder& shard, std::vector<MeasuredCase> unmeasured) {
  if (shard.rounds.fold_into(unmeasured) > 0) {
    throw InputError(fmt::format("merge: {} holds rounds of no case of its sweep; with other --threads?", shard.path));
  }
  return unmeasured;
}

/// Says on the terminal what no shard has measured.
void remark_missing(std::size_t n_found, std::size_t n_cases) {
  if (n_found == n_cases) return;
  remark(fmt::format("{} of the sweep's {} cases are in none of the folders", n_cases - n_found, n_cases));
}

/// The cases of the whole sweep as far as a shard has them, in the sweep's order. A case is in one shard at most.
std::vector<MeasuredCase> merged_cases(const std::vector<ShardFolder>& shards, const SweepConfig& config) {
  const std::vector<MeasuredCase> unmeasured = cases_of_sweep(shards.front(), config);
  std::vector<MeasuredCase> cases = unmeasured;
  std::vector<const ShardFolder*> owners(cases.size(), nullptr);
  for (const ShardFolder& shard : shards) {
    const std::vector<MeasuredCase> own = cases_of_shard(shard, unmeasured);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i].open() && own[i].rounds.empty()) continue;
      if (owners[i] != nullptr) {
        throw InputError(
            fmt::format("merge: {} and {} both hold {}", owners[i]->path, shard.path, case_label(own[i].result.spec)));
      }
      owners[i] = &shard;
      cases[i] = own[i];
    }
  }
  std::vector<MeasuredCase> found;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (owners[i] != nullptr) found.push_back(cases[i]);
  }
  remark_missing(found.size(), cases.size());
  return found;
}

std::optional<Ceilings> merged_ceilings(const std::vector<ShardFolder>& shards) {
  std::optional<Ceilings> highest;
  for (const ShardFolder& shard : shards) {
    const std::optional<Ceilings> own = stored_ceilings(shard.path);
    if (own) highest = highest ? higher_ceilings(*highest, *own) : own;
  }
  return highest;
}

void write_rounds(const std::string& folder, const std::vector<ShardFolder>& shards) {
  std::ofstream file((fs::path(folder) / "results.jsonl").string(), std::ios::binary);
  for (const ShardFolder& shard : shards) {
    for (const Json& line : shard.rounds.lines()) file << line.dump() << "\n";
  }
  file.close();
  if (!file) throw std::runtime_error(fmt::format("writing {}/results.jsonl failed", folder));
}

}  // namespace

int run_merge(const MergeRequest& request) {
  std::vector<ShardFolder> shards;
  for (const std::string& path : request.folders) shards.push_back(open_shard(path));
  refuse_strangers(shards);
  const ShardFolder& first = shards.front();
  const SweepConfig config = parse_sweep_config(first.report["sweep"], first.path + "/report.json: sweep");
  const std::vector<MeasuredCase> cases = merged_cases(shards, config);
  if (cases.empty()) throw InputError("merge: the folders hold no finished round");

  SweepFolder folder(request.out, false);
  write_rounds(folder.path(), shards);
  const std::optional<Ceilings> ceilings = merged_ceilings(shards);
  if (ceilings) folder.store_ceilings(*ceilings);
  const Json report = measured_report(
      cases, {config.name, config.json, {}, cases.front().result.spec.threads, ceilings, first.report["environment"]});
  write_json_file(folder.report_path(), report);
  write_standard_output(report_table(report) + "\nreport: " + folder.report_path() + "\n");
  return any_case_failed(report) ? 1 : 0;
}

}  // namespace kvlab
