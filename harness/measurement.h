// Measures cases: output check, warm-up, then rounds in which the cases of a group take turns (A B C A B C), so that
// drift hits all alike, until the intervals are narrow or the budget is spent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/model_session.h"
#include "harness/output_check.h"
#include "harness/progress.h"
#include "harness/round.h"

namespace kvlab {

struct RoundPolicy {
  std::int64_t min = 3;
  std::int64_t max = 30;
  double target_ci = 0.02;  // half width of the 95 % interval of the median step (or prefill) over the median
  double budget_s = 600;    // for checks and rounds of the whole measurement
};

/// One case and the rounds finished so far, by number; a resumed sweep brings some from its file.
struct MeasuredCase {
  CaseResult result;
  std::map<std::int64_t, Round> rounds;
  ModelConfig config;  // the model's own
  bool warm = false;   // checked and warmed up in this process
  double round_s = 0;  // wall time of the latest run; 0: unknown

  bool open() const { return result.status == Status::ok; }
};

/// Fills result.samples, counters and memory from the rounds.
void fold_rounds(MeasuredCase& measured);

class Measurement {
 public:
  /// Called after each finished round, and with round -1 when a case failed.
  using Listener = std::function<void(const MeasuredCase&, std::int64_t round)>;

  Measurement(std::vector<MeasuredCase>& cases, const RoundPolicy& policy, std::string prompt_file, Listener listener);

  /// Runs what is left to do. A case that throws becomes `failed` or `oom`, and the others go on. Throws Interrupted;
  /// what was finished by then is in the cases.
  void run();

 private:
  using Group = std::vector<MeasuredCase*>;

  std::vector<Group> groups();
  void run_group(const Group& group, double deadline_s);
  void prepare(MeasuredCase& measured, ModelSession& session, OutputCheck& check);
  void time_round(MeasuredCase& measured, ModelSession& session, std::int64_t number);
  /// Runs `work`; what it throws becomes the case's status.
  void attempt(MeasuredCase& measured, const std::function<void()>& work);
  bool finished(const Group& group, std::int64_t n_rounds, double deadline_s) const;
  void report_progress(const MeasuredCase& measured, const std::string& what);
  double remaining_s() const;
  double spent_s() const { return earlier_s_ + watch_.elapsed_s(); }

  std::vector<MeasuredCase>& cases_;
  RoundPolicy policy_;
  std::string prompt_file_;
  Listener listener_;
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
