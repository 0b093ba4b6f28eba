// Runs cases in a worker process of their own, so that whatever happens to it costs the running case and nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/case_runner.h"
#include "harness/isolation/child_process.h"
#include "harness/isolation/worker.h"

namespace kvlab {

class WorkerRunner : public CaseRunner {
 public:
  /// The worker starts when it is first needed, and again after it ended. A check or a round that takes longer than
  /// `timeout_s` is ended.
  WorkerRunner(WorkerSetup setup, double timeout_s);

  CaseOutcome check(const Case& spec) override;
  CaseOutcome round(const Case& spec, std::int64_t number) override;
  Ceilings ceilings(double budget_s) override;

 private:
  CaseOutcome outcome_of(const nlohmann::ordered_json& request, const std::string& what);
  ChildProcess& worker();
  /// How a worker that is gone came to its end while it did `what`.
  CaseOutcome end_of_worker(const std::string& what);

  WorkerSetup setup_;
  double timeout_s_;
  std::unique_ptr<ChildProcess> worker_;
  std::int64_t oom_kills_ = 0;  // of the whole system, when the worker started
};

}  // namespace kvlab
