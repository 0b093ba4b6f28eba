// What can go wrong in a case, told apart: it does not fit, memory ran out, its output is wrong.
#include "harness/local_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "harness/check_memory.h"
#include "harness/device_ceilings.h"
#include "harness/disturbance.h"
#include "harness/exact.h"
#include "harness/memory_plan.h"
#include "harness/report.h"
#include "kernels/error.h"
#include "model/profiler_range.h"

namespace kvlab {

namespace {

constexpr std::size_t kFirstTokens = 16;
constexpr const char* kTakesLess = "a smaller batch or context, or bf16 storage, takes less";

struct DoesNotFit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Output output_of(const Round& round, const WorkloadTokens& tokens) {
  std::vector<std::vector<std::int32_t>> prompts = tokens.depth;
  for (std::size_t seq = 0; seq < prompts.size(); ++seq) {
    prompts[seq].insert(prompts[seq].end(), tokens.prompt[seq].begin(), tokens.prompt[seq].end());
  }
  const std::vector<std::int32_t>& first = round.tokens.front();
  const auto n_first = static_cast<std::ptrdiff_t>(std::min(kFirstTokens, first.size()));
  return {ids_sha256(prompts), ids_sha256(round.tokens), {first.begin(), first.begin() + n_first}};
}

}  // namespace

LocalRunner::LocalRunner(RunnerSetup setup, FaultPlan faults) : setup_(std::move(setup)), faults_(std::move(faults)) {}

LocalRunner::LocalRunner(ModelSession session, RunnerSetup setup)
    : setup_(std::move(setup)), session_(std::move(session)) {}

CaseOutcome LocalRunner::check(const Case& spec) {
  return attempt([&](CaseOutcome& outcome) {
    const ProfilerRange range("output check");
    refuse_what_does_not_fit(spec);
    RoundOptions options;
    options.nan_logits = faults_.strike(spec, std::nullopt);
    const WorkloadTokens workload = tokens(spec);
    CaseResult result;
    result.spec = spec;
    Round round = check_->check(result, workload, options);
    outcome.status = result.status;
    outcome.reason = result.reason;
    outcome.warnings = result.warnings;
    if (outcome.status != Status::ok) return;
    outcome.output = output_of(round, workload);
    outcome.round = std::move(round);
    if (!warm(spec)) warm_.push_back(spec);
  });
}

CaseOutcome LocalRunner::round(const Case& spec, std::int64_t number) {
  return attempt([&](CaseOutcome& outcome) {
    RoundOptions options;
    options.n_choices = choosable_ids(session_->checkpoint());
    options.nan_logits = faults_.strike(spec, number);
    const WorkloadTokens workload = tokens(spec);
    Transformer& transformer = session_->transformer(spec.variant);
    if (!warm(spec)) {
      const ProfilerRange range("warm-up");
      run_round(transformer, spec, workload, options);
      warm_.push_back(spec);
    }
    const MachineLoad before = read_machine_load(spec.device);
    const ProfilerRange range("round", number + 1);
    Round round = run_round(transformer, spec, workload, options);
    round.transfers.load = session_->load_transfers(spec.variant);
    round.gemv = session_->operations().product_choices();
    round.disturbance = disturbance_between(before, read_machine_load(spec.device));
    outcome.output = output_of(round, workload);
    outcome.round = std::move(round);
  });
}

CaseOutcome LocalRunner::watched_round(const Case& spec, PassWatcher& watcher) {
  return attempt([&](CaseOutcome& outcome) {
    const ProfilerRange range("watched round");
    RoundOptions options;
    options.n_choices = choosable_ids(session_->checkpoint());
    options.watcher = &watcher;
    outcome.round = run_round(session_->transformer(spec.variant), spec, tokens(spec), options);
  });
}

Ceilings LocalRunner::ceilings(double budget_s) {
  if (setup_.device == "cpu") return measure_ceilings(setup_.threads, budget_s);
  Operations& operations = session().operations();
  return has_device_clock(operations) ? measure_device_ceilings(operations)
                                      : measure_ceilings(setup_.threads, budget_s);
}

CaseOutcome LocalRunner::attempt(const std::function<void(CaseOutcome&)>& work) {
  CaseOutcome outcome;
  const auto end_with = [&](Status status, const std::string& reason) {
    outcome.round.reset();
    outcome.status = status;
    outcome.reason = reason;
  };
  try {
    if (!check_) check_.emplace(session());
    work(outcome);
  } catch (const DoesNotFit& refusal) {
    end_with(Status::skipped, refusal.what());
  } catch (const OutOfMemory& error) {
    end_with(Status::oom, fmt::format("memory ran out while this case ran: {}; {}", error.what(), kTakesLess));
  } catch (const std::bad_alloc&) {
    end_with(Status::oom, fmt::format("memory ran out while this case ran; {}", kTakesLess));
  } catch (const std::exception& error) {
    end_with(Status::failed, error.what());
  }
  return outcome;
}

ModelSession& LocalRunner::session() {
  if (!session_) session_.emplace(setup_.model, setup_.device, setup_.threads, setup_.seed, setup_.gemv);
  return *session_;
}

void LocalRunner::refuse_what_does_not_fit(const Case& spec) const {
  const std::int64_t available = session_->available_memory_bytes();
  if (available == 0) return;
  const ModelConfig& config = session_->config();
  const Variant reference = reference_variant(spec, config);
  const Operations& ops = session_->operations();
  Exact weights = 0;
  if (session_->needs_packing(spec.variant)) weights += held_weight_bytes(config, spec.variant, ops);
  if (session_->needs_packing(reference) && !Transformer::same_weights(reference, spec.variant)) {
    weights += held_weight_bytes(config, reference, ops);
  }
  const std::int64_t left = available - weights.value();
  const Exact needed = weights + checked_run_bytes(spec, config, ops, left);
  if (needed.value() <= available) return;
  throw DoesNotFit(fmt::format("needs {:.1f} GB of weights, KV cache and workspace, {:.1f} GB available",
                               static_cast<double>(needed.value()) / 1e9, static_cast<double>(available) / 1e9));
}

WorkloadTokens LocalRunner::tokens(const Case& spec) const {
  return workload_tokens(session_->checkpoint(), spec.workload, setup_.prompt_file, spec.seed);
}

bool LocalRunner::warm(const Case& spec) const { return std::find(warm_.begin(), warm_.end(), spec) != warm_.end(); }

}  // namespace kvlab
