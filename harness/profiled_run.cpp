#include "harness/profiled_run.h"

#include <fmt/format.h>

#include <cstdio>

#include "harness/interrupt.h"
#include "harness/local_runner.h"
#include "harness/measurement.h"
#include "harness/output_file.h"
#include "harness/profile_window.h"
#include "harness/report.h"
#include "kernels/error.h"

namespace kvlab {

int exit_code_of(const CaseOutcome& outcome) {
  if (outcome.status == Status::ok) return 0;
  fmt::print(stderr, "kvlab: {}: {}\n", status_name(outcome.status), outcome.reason);
  return 1;
}

int run_profiled(const RunRequest& request, const Case& spec) {
  const ProfileWindow& window = *request.profile;
  check_profile_window(window, spec.workload.gen_tokens);
  if (!request.json.empty()) {
    throw InputError("--profile makes no report, for a profiler slows what it watches; leave out --json");
  }
  if (spec.device == "cpu" && nvtx_version() == "none") {
    throw InputError(
        "--profile: on the CPU an NVTX range marks the window, and this build has none; the CUDA toolkit has the "
        "header that it needs (docs/profiling.md)");
  }
  LocalRunner runner({spec.model, spec.device, spec.threads, spec.seed, request.prompt_file, request.model.gemv});
  if (const int code = exit_code_of(runner.check(spec)); code != 0) return code;
  WindowMarker marker(window, runner.operations());
  if (const int code = exit_code_of(runner.watched_round(spec, marker)); code != 0) return code;
  write_standard_output(
      fmt::format("{}: {} marked for a profiler in one round after the output check; no times are reported\n",
                  case_label(spec), profile_window_text(window)));
  return 0;
}

}  // namespace kvlab
