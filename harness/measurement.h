// Measures cases: output check, warm-up, then rounds in which the cases of a group take turns (A B C A B C), so that
// drift hits all alike, until the intervals are narrow or the budget is spent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/case_runner.h"
#include "harness/progress.h"
#include "harness/round.h"
#include "model/model_config.h"

namespace kvlab {

struct RoundPolicy {
  std::int64_t min = 3;
  std::int64_t max = 30;
  double target_ci = 0.02;  // half width of the 95 % interval of the median step (or prefill) over the median
  double budget_s = 600;    // for checks and rounds of the whole measurement
  double timeout_s = 600;   // for one check or one round of a case in a worker
};

/// One case and the rounds finished so far, by number; a resumed sweep brings some from its file.
struct MeasuredCase {
  CaseResult result;
  std::map<std::int64_t, Round> rounds;
  ModelConfig config;    // the model's own
  bool checked = false;  // by this run of the program
  double round_s = 0;    // passes of the latest run; 0: unknown

  bool open() const { return result.status == Status::ok; }
};

/// Fills result.samples, counters and memory from the rounds.
void fold_rounds(MeasuredCase& measured);

/// Hears of what a measurement finished, as soon as it is finished.
class MeasurementListener {
 public:
  virtual ~MeasurementListener() = default;
  /// A round, or without a number what ended a case.
  virtual void on_outcome(const Case&, std::optional<std::int64_t> /*number*/, const CaseOutcome&) {}
  virtual void on_ceilings(const Ceilings&) {}
};

class Measurement {
 public:
  /// Makes what runs a group of cases; it lives until the group is finished.
  using RunnerFactory = std::function<std::unique_ptr<CaseRunner>(const Case& first)>;

  /// `ceilings_budget_s`: for one look at the ceilings, before and after each group; 0: none.
  Measurement(std::vector<MeasuredCase>& cases, const RoundPolicy& policy, double ceilings_budget_s,
              RunnerFactory make_runner, MeasurementListener& listener);

  /// Runs what is left to do. A case that goes wrong gets its status, and the others go on. Throws Interrupted; what
  /// was finished by then is in the cases. Throws std::runtime_error when the first look at the ceilings fails.
  void run();

  /// The highest of what was seen: a ceiling that a busy moment hid is found at another one.
  const std::optional<Ceilings>& ceilings() const { return ceilings_; }

 private:
  using Group = std::vector<MeasuredCase*>;

  std::vector<Group> groups();
  void run_group(const Group& group, double deadline_s);
  void look_at_ceilings(CaseRunner& runner);
  void check(MeasuredCase& measured, CaseRunner& runner);
  void time_round(MeasuredCase& measured, CaseRunner& runner, std::int64_t number);
  void end_case(MeasuredCase& measured, const CaseOutcome& outcome);
  bool finished(const Group& group, std::int64_t n_rounds, double deadline_s) const;
  void report_progress(const MeasuredCase& measured, const std::string& what);
  double remaining_s() const;
  double spent_s() const { return earlier_s_ + watch_.elapsed_s(); }

  std::vector<MeasuredCase>& cases_;
  RoundPolicy policy_;
  double ceilings_budget_s_;
  RunnerFactory make_runner_;
  MeasurementListener& listener_;
  std::optional<Ceilings> ceilings_;
  Progress progress_;
  Stopwatch watch_;
  double earlier_s_ = 0;  // of the rounds that a resumed sweep brought
};

/// Checks that need no weights: heads that fit, tokens within the context, capacity. Throws InputError naming the case.
void check_case(const Case& spec, const ModelConfig& config);

/// "paged16 fused mha, batch 2, 32 + 48 tokens".
std::string case_label(const Case& spec);

/// Planned FLOPs of one round.
std::int64_t planned_flops(const Case& spec, const ModelConfig& config);

}  // namespace kvlab
