// Runs cases in this process: `kvlab run`, where a profiler can see them, and the inside of a worker.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "harness/case_runner.h"
#include "harness/isolation/fault.h"
#include "harness/model_session.h"
#include "harness/output_check.h"

namespace kvlab {

class LocalRunner : public CaseRunner {
 public:
  /// The checkpoint is opened when the first case needs it.
  explicit LocalRunner(RunnerSetup setup, FaultPlan faults = {});
  /// Over a session that is there.
  LocalRunner(ModelSession session, RunnerSetup setup);

  CaseOutcome check(const Case& spec) override;
  CaseOutcome round(const Case& spec, std::int64_t number) override;
  /// A round of a checked case that `watcher` hears. Its times are no measurement.
  CaseOutcome watched_round(const Case& spec, PassWatcher& watcher);
  Ceilings ceilings(double budget_s) override;

  /// Of the session that `check` opened.
  Operations& operations() { return session_->operations(); }

 private:
  /// Opens what is needed, then does `work`; what that throws becomes the outcome's status.
  CaseOutcome attempt(const std::function<void(CaseOutcome&)>& work);
  ModelSession& session();
  void refuse_what_does_not_fit(const Case& spec) const;
  WorkloadTokens tokens(const Case& spec) const;
  bool warm(const Case& spec) const;

  RunnerSetup setup_;
  FaultPlan faults_;
  std::optional<ModelSession> session_;
  std::optional<OutputCheck> check_;
  std::vector<Case> warm_;
};

}  // namespace kvlab
