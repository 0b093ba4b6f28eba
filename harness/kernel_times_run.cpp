#include "harness/kernel_times_run.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <span>
#include <utility>

#include "harness/kernel_trace_module.h"
#include "harness/local_runner.h"
#include "harness/measurement.h"
#include "harness/output_file.h"
#include "harness/profiled_run.h"
#include "harness/report.h"
#include "kernels/error.h"

namespace kvlab {

void KernelWatcher::before_pass(std::int64_t /*pass*/) {
  ops_.start_profiler();  // waits for what came before
  trace_.start();
}

void KernelWatcher::after_pass(std::int64_t /*pass*/) {
  ops_.stop_profiler();
  kernels_.push_back(trace_.stop());
}

std::vector<TracedPass> KernelWatcher::passes(const Round& round) const {
  std::vector<TracedPass> passes;
  for (std::size_t pass = 0; pass < kernels_.size(); ++pass) {
    passes.push_back({kernels_[pass], pass == 0 ? round.ttft_s : round.step_s.at(pass - 1)});
  }
  return passes;
}

int run_kernel_times(const RunRequest& request, const Case& spec) {
  if (spec.device == "cpu") {
    throw InputError(
        "--kernel-times traces the kernels of a GPU; on the CPU `kvlab trace` lists the operations of a step");
  }
  OutputFile json("--json", request.json);
  const std::unique_ptr<cuda::KernelTrace> trace = load_kernel_trace();
  LocalRunner runner({spec.model, spec.device, spec.threads, spec.seed, request.prompt_file, request.model.gemv});
  if (const int code = exit_code_of(runner.check(spec)); code != 0) return code;
  KernelWatcher watcher(*trace, runner.operations());
  const CaseOutcome outcome = runner.watched_round(spec, watcher);
  if (const int code = exit_code_of(outcome); code != 0) return code;

  const std::vector<TracedPass> passes = watcher.passes(*outcome.round);
  const KernelTimes prefill = kernel_times(std::span(passes).first(1));
  const KernelTimes decode = kernel_times(std::span(passes).subspan(1));
  if (!json.is_standard_output()) {
    write_standard_output(fmt::format("{}, under CUPTI, which makes passes longer\n\n{}\n{}", case_label(spec),
                                      kernel_times_text("prefill", prefill),
                                      kernel_times_text(fmt::format("{} decode steps", passes.size() - 1), decode)));
  }
  json.write_json({{"schema", "kvlab.kernel_times/1"},
                   {"case", case_json(spec)},
                   {"prefill", kernel_times_json(prefill)},
                   {"decode", kernel_times_json(decode)}});
  return 0;
}

}  // namespace kvlab
