// `kvlab sweep`: the cases of a sweep file, measured in turns, stored round by round, reported at the end.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>

#include "harness/accounting.h"
#include "harness/commands/commands.h"
#include "harness/interrupt.h"
#include "harness/measured_report.h"
#include "harness/output_file.h"
#include "harness/report.h"
#include "harness/round_store.h"
#include "harness/sweep_config.h"
#include "harness/threads.h"
#include "kernels/error.h"
#include "variants/registry.h"

namespace kvlab {

namespace {

namespace fs = std::filesystem;

constexpr double kCeilingsBudget_s = 2;  // before the rounds, and again after them

/// Every case with its model's configuration, checked as far as no weights are needed.
std::vector<MeasuredCase> checked_cases(const SweepConfig& config, const SweepRequest& request) {
  const CaseSelector filter = parse_filters(request.filters);
  std::map<std::string, Checkpoint> checkpoints;
  std::vector<MeasuredCase> cases;
  for (const Case& spec : sweep_cases(config, filter, resolve_threads(request.threads))) {
    if (checkpoints.count(spec.model) == 0) {
      checkpoints[spec.model] = open_checkpoint(spec.model, Need::config, config.seed);
    }
    const Checkpoint& checkpoint = checkpoints[spec.model];
    check_case(spec, checkpoint.config);
    workload_tokens(checkpoint, spec.workload, config.prompt_file, spec.seed);
    MeasuredCase measured;
    measured.result.spec = spec;
    measured.config = checkpoint.config;
    cases.push_back(measured);
  }
  return cases;
}

int print_plan(const std::vector<MeasuredCase>& cases) {
  for (const MeasuredCase& measured : cases) {
    const Case& spec = measured.result.spec;
    const WorkCounters prefill = prefill_work(measured.config, spec.variant, spec.workload);
    const WorkCounters decode = decode_work(measured.config, spec.variant, spec.workload);
    const std::int64_t bytes = prefill.weight_bytes + prefill.kv_read_bytes + prefill.kv_write_bytes +
                               decode.weight_bytes + decode.kv_read_bytes + decode.kv_write_bytes;
    write_standard_output(fmt::format("{}  {}  {:.3f} GFLOP, {:.3f} GB a round\n", spec.model, case_label(spec),
                                      static_cast<double>(planned_flops(spec, measured.config)) / 1e9,
                                      static_cast<double>(bytes) / 1e9));
  }
  write_standard_output(fmt::format("{} cases\n", cases.size()));
  return 0;
}

/// Makes the folder, or refuses one that already holds something.
void prepare_folder(const SweepRequest& request) {
  if (request.out.empty()) throw InputError("sweep: --out DIR is missing (only --dry-run needs none)");
  std::error_code error;
  if (fs::exists(request.out) && !fs::is_directory(request.out)) {
    throw InputError(fmt::format("--out: {} is not a folder", request.out));
  }
  if (fs::exists(request.out) && !fs::is_empty(request.out, error) && !request.resume) {
    throw InputError(
        fmt::format("--out: {} is not empty; use --resume to go on there, or another folder", request.out));
  }
  fs::create_directories(request.out, error);
  if (error) throw InputError(fmt::format("--out: cannot make {}: {}", request.out, error.message()));
  OutputFile("--out", (fs::path(request.out) / "report.json").string());  // refuses a folder that cannot be written
}

std::string ceilings_path(const std::string& folder) { return (fs::path(folder) / "ceilings.json").string(); }

std::optional<Ceilings> stored_ceilings(const std::string& folder) {
  const std::string path = ceilings_path(folder);
  if (!fs::exists(path)) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(read_text_file("--out", path));
    Ceilings stored;
    stored.read_bytes_per_s = json.at("read_bytes_per_s");
    stored.copy_bytes_per_s = json.at("copy_bytes_per_s");
    stored.gemm_flops_per_s_f32 = json.at("gemm_flops_per_s").at("f32");
    stored.gemm_flops_per_s_bf16 = json.at("gemm_flops_per_s").at("bf16");
    return stored;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: {}; delete it to measure again", path, error.what()));
  }
}

void store_ceilings(const std::string& folder, const Ceilings& ceilings) {
  nlohmann::ordered_json json;
  json["read_bytes_per_s"] = ceilings.read_bytes_per_s;
  json["copy_bytes_per_s"] = ceilings.copy_bytes_per_s;
  json["gemm_flops_per_s"] = {{"f32", ceilings.gemm_flops_per_s_f32}, {"bf16", ceilings.gemm_flops_per_s_bf16}};
  write_json_file(ceilings_path(folder), json);
}

/// Measures the cases between two looks at the ceilings. A resumed sweep keeps the stored ones, so that rounds of
/// several days are divided by the same numbers.
void measure(std::vector<MeasuredCase>& cases, const SweepConfig& config, const std::string& folder, RoundStore& store,
             ReportSource& source) {
  source.ceilings = stored_ceilings(folder);
  const bool fresh = !source.ceilings;
  if (fresh) {
    fmt::print(stderr, "measuring what this machine can read, copy and multiply\n");
    source.ceilings = measure_ceilings(source.threads, kCeilingsBudget_s);
    store_ceilings(folder, *source.ceilings);
  }
  const auto keep = [&](const MeasuredCase& measured, std::int64_t round) { store.append(measured, round); };
  Measurement(cases, config.rounds, config.prompt_file, keep).run();
  if (fresh) {
    source.ceilings = higher_ceilings(*source.ceilings, measure_ceilings(source.threads, kCeilingsBudget_s));
    store_ceilings(folder, *source.ceilings);
  }
}

}  // namespace

int run_sweep(const SweepRequest& request) {
  const SweepConfig config = read_sweep_config(request.config_file);
  std::vector<MeasuredCase> cases = checked_cases(config, request);
  if (request.dry_run) return print_plan(cases);
  prepare_folder(request);
  RoundStore store(request.out);
  if (const std::int64_t strangers = store.fold_into(cases); strangers > 0) {
    fmt::print(stderr, "{} stored rounds belong to no case of this sweep and are left out\n", strangers);
  }
  ReportSource source{config.name, config.json, request.argv, cases.front().result.spec.threads, std::nullopt};
  bool was_interrupted = false;
  try {
    measure(cases, config, request.out, store, source);
  } catch (const Interrupted&) {
    was_interrupted = true;
  }
  const nlohmann::ordered_json report = measured_report(cases, source);
  const std::string path = (fs::path(request.out) / "report.json").string();
  write_json_file(path, report);
  write_standard_output(report_table(report) + "\nreport: " + path + "\n");
  if (was_interrupted) {
    fmt::print(stderr, "kvlab: interrupted; --resume goes on from here\n");
    return kInterruptedExitCode;
  }
  return any_case_failed(report) ? 1 : 0;
}

}  // namespace kvlab
