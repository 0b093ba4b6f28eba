// `kvlab sweep`: the cases of a sweep file, measured in turns by workers, stored round by round, reported at the end.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "harness/commands/commands.h"
#include "harness/devices.h"
#include "harness/interrupt.h"
#include "harness/isolation/fault.h"
#include "harness/isolation/worker_runner.h"
#include "harness/measured_report.h"
#include "harness/model_configs.h"
#include "harness/output_file.h"
#include "harness/progress.h"
#include "harness/prompt.h"
#include "harness/report.h"
#include "harness/round_store.h"
#include "harness/sweep_config.h"
#include "harness/sweep_folder.h"
#include "harness/sweep_plan.h"
#include "harness/threads.h"
#include "kernels/error.h"

namespace kvlab {

namespace {

constexpr double kCeilingsBudget_s = 2;    // a look, before and after the rounds of a model
constexpr double kDryRunCeilings_s = 0.3;  // for the estimate

/// Every case with its model's configuration, checked as far as no weights are needed.
std::vector<MeasuredCase> checked_cases(const SweepConfig& config, const SweepRequest& request) {
  const CaseSelector filter = parse_filters(request.filters);
  std::vector<Case> specs =
      sweep_cases(config, filter, resolve_measured_device(request.device), resolve_threads(request.threads));
  if (!request.shard.empty()) specs = shard_cases(specs, parse_shard(request.shard));
  ModelConfigs models(config.seed);
  std::vector<MeasuredCase> cases;
  for (const Case& spec : specs) {
    const Checkpoint& checkpoint = models.of(spec.model);
    check_case(spec, checkpoint.config);
    Workload one_sequence = spec.workload;  // the others wrap round in the same text
    one_sequence.batch = 1;
    workload_tokens(checkpoint, one_sequence, config.prompt_file, spec.seed);
    MeasuredCase measured;
    measured.result.spec = spec;
    measured.config = checkpoint.config;
    cases.push_back(measured);
  }
  return cases;
}

WorkerSetup worker_setup(const Case& first, const SweepConfig& config, const SweepRequest& request) {
  WorkerSetup setup;
  setup.runner = {first.model, first.device, first.threads, first.seed, config.prompt_file, request.gemv};
  setup.faults = request.faults;
  setup.quiet = request.quiet;
  return setup;
}

class Keeper : public MeasurementListener {
 public:
  Keeper(SweepFolder& folder, RoundStore& rounds) : folder_(folder), rounds_(rounds) {}
  void on_outcome(const Case& spec, std::optional<std::int64_t> number, const CaseOutcome& outcome) override {
    rounds_.append(spec, number, outcome);
  }
  void on_ceilings(const Ceilings& ceilings) override { folder_.store_ceilings(ceilings); }

 private:
  SweepFolder& folder_;
  RoundStore& rounds_;
};

/// What an earlier run left, as far as it belongs to this sweep.
void take_stored_rounds(const RoundStore& store, std::vector<MeasuredCase>& cases) {
  if (const std::int64_t strangers = store.fold_into(cases); strangers > 0) {
    remark(fmt::format("{} stored rounds belong to no case of this sweep and are left out", strangers));
  }
  for (MeasuredCase& measured : cases) {
    if (measured.result.status != Status::skipped) continue;
    measured.result.status = Status::ok;  // there may be more memory by now
    measured.result.reason.clear();
  }
}

/// By the ceilings that an earlier run left in --out, or else by a short look at them.
int dry_run(const std::vector<MeasuredCase>& cases, const SweepConfig& config, const SweepRequest& request) {
  std::optional<Ceilings> ceilings;
  if (!request.out.empty()) ceilings = stored_ceilings(request.out);
  if (!ceilings) {
    WorkerRunner runner(worker_setup(cases.front().result.spec, config, request), config.rounds.timeout_s);
    ceilings = runner.ceilings(kDryRunCeilings_s);
  }
  write_standard_output(sweep_plan_text(cases, config.rounds, *ceilings));
  return 0;
}

}  // namespace

int run_sweep(const SweepRequest& request) {
  if (request.quiet) Progress::silence();
  const FaultPlan checked_faults(request.faults);
  const SweepConfig config = read_sweep_config(request.config_file);
  std::vector<MeasuredCase> cases = checked_cases(config, request);
  if (request.dry_run) return dry_run(cases, config, request);
  if (request.out.empty()) throw InputError("sweep: --out DIR is missing (only --dry-run needs none)");
  SweepFolder folder(request.out, request.resume);
  RoundStore store(folder.path());
  take_stored_rounds(store, cases);

  ReportSource source{config.name,       config.json, request.argv, cases.front().result.spec.threads,
                      folder.ceilings(), std::nullopt};
  Keeper keeper(folder, store);
  const auto make_runner = [&](const Case& first) {
    return std::make_unique<WorkerRunner>(worker_setup(first, config, request), config.rounds.timeout_s);
  };
  Measurement measurement(cases, config.rounds, source.ceilings ? 0 : kCeilingsBudget_s, make_runner, keeper);
  bool was_interrupted = false;
  try {
    measurement.run();
  } catch (const Interrupted&) {
    was_interrupted = true;
  }
  if (!source.ceilings) source.ceilings = measurement.ceilings();
  const nlohmann::ordered_json report = measured_report(cases, source);
  write_json_file(folder.report_path(), report);
  write_standard_output(report_table(report) + "\nreport: " + folder.report_path() + "\n");
  if (was_interrupted) {
    fmt::print(stderr, "kvlab: interrupted; --resume goes on from here\n");
    return kInterruptedExitCode;
  }
  return any_case_failed(report) ? 1 : 0;
}

}  // namespace kvlab
