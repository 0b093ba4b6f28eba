// The run behind `--kernel-times`: a round in which CUPTI tells which kernels each pass ran.
#pragma once

#include <vector>

#include "harness/case.h"
#include "harness/commands/commands.h"
#include "harness/kernel_times.h"
#include "harness/round.h"
#include "kernels/operations.h"

namespace kvlab {

/// Traces every pass of a round.
class KernelWatcher : public PassWatcher {
 public:
  KernelWatcher(cuda::KernelTrace& trace, Operations& ops) : trace_(trace), ops_(ops) {}

  void before_pass(std::int64_t pass) override;
  void after_pass(std::int64_t pass) override;

  /// The kernels of each pass, with the times of the round that was watched: the prefill first.
  std::vector<TracedPass> passes(const Round& round) const;

 private:
  cuda::KernelTrace& trace_;
  Operations& ops_;
  std::vector<std::vector<cuda::KernelRecord>> kernels_;  // [passes]
};

/// Output check and warm-up, then one round under CUPTI: a table for the prefill and one for the decode steps, and with
/// --json a file of their own kind, no report. Throws InputError on the CPU, which has no kernels to trace.
int run_kernel_times(const RunRequest& request, const Case& spec);

}  // namespace kvlab
