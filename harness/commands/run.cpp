// `kvlab run`: one case, measured and reported.
#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <memory>

#include "harness/commands/commands.h"
#include "harness/devices.h"
#include "harness/interrupt.h"
#include "harness/kernel_times_run.h"
#include "harness/local_runner.h"
#include "harness/measured_report.h"
#include "harness/output_file.h"
#include "harness/profiled_run.h"
#include "harness/progress.h"
#include "harness/report.h"
#include "harness/threads.h"
#include "kernels/error.h"

namespace kvlab {

namespace {

constexpr double kCeilingsBudget_s = 0.8;  // before the rounds, and again after them

MeasuredCase requested_case(const RunRequest& request) {
  Case spec;
  spec.model = request.model.model;
  spec.variant = request.model.variant;
  spec.workload = {request.batch, request.depth, request.prompt_tokens, request.gen_tokens,
                   parse_kv_fill("--kv-fill", request.kv_fill)};
  spec.device = resolve_measured_device(request.model.device);
  spec.threads = resolve_threads(request.model.threads);
  spec.seed = request.model.seed;
  const Checkpoint checkpoint = open_checkpoint(spec.model, Need::config, spec.seed);
  check_case(spec, checkpoint.config);
  if (!request.prompt_file.empty()) {
    if (!checkpoint.tokenizer) throw InputError("--prompt-file: " + spec.model + " has no tokenizer");
    workload_tokens(checkpoint, spec.workload, request.prompt_file, spec.seed);
  }
  MeasuredCase measured;
  measured.result.spec = spec;
  measured.config = checkpoint.config;
  return measured;
}

RoundPolicy exactly(std::int64_t rounds) {
  RoundPolicy policy;
  policy.min = rounds;
  policy.max = rounds;
  policy.budget_s = std::numeric_limits<double>::max();
  return policy;
}

}  // namespace

int run_run(const RunRequest& request) {
  if (request.quiet) Progress::silence();
  std::vector<MeasuredCase> cases = {requested_case(request)};
  if (request.kernel_times && request.profile) throw InputError("--kernel-times and --profile are runs of their own");
  if (request.kernel_times) return run_kernel_times(request, cases.front().result.spec);
  if (request.profile) return run_profiled(request, cases.front().result.spec);
  OutputFile json("--json", request.json);
  const auto make_runner = [&](const Case& spec) {
    return std::make_unique<LocalRunner>(
        RunnerSetup{spec.model, spec.device, spec.threads, spec.seed, request.prompt_file, request.model.gemv});
  };
  MeasurementListener nobody;
  Measurement measurement(cases, exactly(request.rounds), kCeilingsBudget_s, make_runner, nobody);
  bool was_interrupted = false;
  try {
    measurement.run();
  } catch (const Interrupted&) {
    was_interrupted = true;
  }
  const int threads = cases.front().result.spec.threads;
  const nlohmann::ordered_json report =
      measured_report(cases, {"run", nullptr, request.argv, threads, measurement.ceilings(), std::nullopt});
  if (!json.is_standard_output()) write_standard_output(report_table(report));
  json.write_json(report);
  const CaseResult& result = cases.front().result;
  if (result.status != Status::ok) fmt::print(stderr, "kvlab: {}: {}\n", status_name(result.status), result.reason);
  if (was_interrupted) return kInterruptedExitCode;
  return any_case_failed(report) ? 1 : 0;
}

}  // namespace kvlab
