// Who runs a case: this process (harness/local_runner.h) or a worker that may die (harness/isolation/worker_runner.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/ceilings.h"
#include "harness/round.h"
#include "kernels/gemv_setting.h"

namespace kvlab {

/// What one run of a case came to.
struct CaseOutcome {
  Status status = Status::ok;
  std::string reason;  // of every status but ok
  std::vector<std::string> warnings;
  Output output;
  std::optional<Round> round;  // of status ok; `tokens` may be empty, `output` has their hash
};

/// What the cases of one runner share.
struct RunnerSetup {
  std::string model;
  std::string device = "cpu";
  int threads = 1;
  std::uint64_t seed = 1;
  std::string prompt_file;  // "": seeded ids
  GemvSetting gemv = GemvSetting::measured;
};

class CaseRunner {
 public:
  CaseRunner() = default;
  virtual ~CaseRunner() = default;
  CaseRunner(const CaseRunner&) = delete;
  CaseRunner& operator=(const CaseRunner&) = delete;

  /// Compares the output of a case with the reference variant's, which also warms up its shapes. What goes wrong is the
  /// outcome's status. Throws Interrupted.
  virtual CaseOutcome check(const Case& spec) = 0;
  /// One timed round of a warm case; a runner that is not warm (any more) warms itself up first. Throws Interrupted.
  virtual CaseOutcome round(const Case& spec, std::int64_t number) = 0;
  /// Measured by the threads that run the rounds; takes about `budget_s` seconds.
  virtual Ceilings ceilings(double budget_s) = 0;
};

}  // namespace kvlab
