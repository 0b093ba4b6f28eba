// The run behind `--profile`: looked at, not measured.
#pragma once

#include "harness/case_runner.h"
#include "harness/commands/commands.h"

namespace kvlab {

/// Output check and warm-up, then one round whose window a profiler may record. Makes no report: times under a profiler
/// are no measurement. Returns the exit code.
int run_profiled(const RunRequest& request, const Case& spec);

/// 1 for an outcome that is not ok, after saying why; else 0.
int exit_code_of(const CaseOutcome& outcome);

}  // namespace kvlab
