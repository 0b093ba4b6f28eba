// Groups, turns, budget and progress of a measurement. What a round does: round.h; whether it is right: output_check.h.
#include "harness/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "harness/accounting.h"
#include "harness/ceilings_json.h"
#include "harness/machine.h"
#include "harness/nvml.h"
#include "harness/report.h"
#include "harness/statistics.h"
#include "harness/work_difference.h"
#include "kernels/error.h"
#include "variants/registry.h"

namespace kvlab {

namespace {

/// Cases of one model take turns only while all their weight sets fit this share of the free memory.
constexpr double kSharedWeightShare = 0.5;

/// What weights may take, by what this process can ask: it has no backend, its workers do. A GPU that does not say has
/// none to share; a host that does not, all of it.
std::int64_t available_bytes(const std::string& device) {
  if (device == "cpu") {
    const std::int64_t bytes = read_machine().memory_available_bytes;
    return bytes > 0 ? bytes : std::numeric_limits<std::int64_t>::max();
  }
  const Nvml* nvml = process_nvml();
  const std::optional<GpuState> gpu = nvml == nullptr ? std::nullopt : nvml->read();
  return gpu ? gpu->free_memory_bytes.value_or(0) : 0;
}

bool narrow(const MeasuredCase& measured, double target) {
  std::vector<std::vector<double>> rounds;
  for (const auto& [number, round] : measured.rounds) {
    rounds.push_back(round.step_s.empty() ? std::vector{round.prefill_s} : round.step_s);
  }
  const std::optional<Interval> interval = median_interval(rounds, measured.result.spec.seed);
  if (!interval) return false;
  std::vector<double> all;
  for (const std::vector<double>& round : rounds) all.insert(all.end(), round.begin(), round.end());
  return (interval->high - interval->low) / 2 <= target * median(all);
}

std::int64_t weight_bytes(const std::vector<const MeasuredCase*>& sets) {
  std::int64_t bytes = 0;
  for (const MeasuredCase* set : sets) bytes += stored_weight_bytes(set->config, set->result.spec.variant);
  return bytes;
}

/// One case for each weight set that the cases need.
std::vector<const MeasuredCase*> weight_sets(const std::vector<MeasuredCase*>& cases) {
  std::vector<const MeasuredCase*> sets;
  for (const MeasuredCase* measured : cases) {
    const bool known = std::any_of(sets.begin(), sets.end(), [&](const MeasuredCase* set) {
      return Transformer::same_weights(set->result.spec.variant, measured->result.spec.variant);
    });
    if (!known) sets.push_back(measured);
  }
  return sets;
}

}  // namespace

void fold_rounds(MeasuredCase& measured) {
  Samples& samples = measured.result.samples;
  samples = {};
  measured.result.disturbances.clear();
  for (const auto& [number, round] : measured.rounds) {
    samples.ttft_s.push_back(round.ttft_s);
    samples.prefill_s.push_back(round.prefill_s);
    samples.step_s.push_back(round.step_s);
    measured.result.disturbances.push_back(round.disturbance);
    if (round.device_prefill_s.empty()) continue;
    samples.device_prefill_s.push_back(round.device_prefill_s.front());
    samples.device_step_s.push_back(round.device_step_s);
  }
  if (measured.rounds.empty()) return;
  const Round& last = measured.rounds.rbegin()->second;
  samples.step_rows = last.step_rows;
  samples.step_dots = last.step_dots;
  measured.result.prefill_work = last.prefill_work;
  measured.result.decode_work = last.decode_work;
  measured.result.kv = last.kv;
  measured.result.transfers = last.transfers;
  measured.result.gemv = last.gemv;
  measured.result.workspace_bytes = last.workspace_bytes;
}

Measurement::Measurement(std::vector<MeasuredCase>& cases, const RoundPolicy& policy, double ceilings_budget_s,
                         RunnerFactory make_runner, MeasurementListener& listener)
    : cases_(cases),
      policy_(policy),
      ceilings_budget_s_(ceilings_budget_s),
      make_runner_(std::move(make_runner)),
      listener_(listener) {
  for (const MeasuredCase& measured : cases_) {
    for (const auto& [number, round] : measured.rounds) earlier_s_ += round.total_s();
  }
}

void Measurement::run() {
  const std::vector<Group> all = groups();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(all.size());
    run_group(all[i], policy_.budget_s * share);
  }
}

std::vector<Measurement::Group> Measurement::groups() {
  std::vector<Group> by_model;
  for (MeasuredCase& measured : cases_) {
    const auto same = std::find_if(by_model.begin(), by_model.end(), [&](const Group& group) {
      return group.front()->result.spec.model == measured.result.spec.model;
    });
    if (same == by_model.end()) {
      by_model.push_back({&measured});
    } else {
      same->push_back(&measured);
    }
  }
  if (cases_.empty()) return {};
  const auto available = static_cast<double>(available_bytes(cases_.front().result.spec.device));
  std::vector<Group> result;
  for (const Group& group : by_model) {
    const std::vector<const MeasuredCase*> sets = weight_sets(group);
    const bool together = sets.size() == 1 || static_cast<double>(weight_bytes(sets)) <= kSharedWeightShare * available;
    if (together) {
      result.push_back(group);
      continue;
    }
    for (const MeasuredCase* set : sets) {
      Group part;
      std::copy_if(group.begin(), group.end(), std::back_inserter(part), [&](const MeasuredCase* measured) {
        return Transformer::same_weights(set->result.spec.variant, measured->result.spec.variant);
      });
      result.push_back(part);
    }
  }
  return result;
}

void Measurement::run_group(const Group& group, double deadline_s) {
  std::int64_t n_rounds = std::numeric_limits<std::int64_t>::max();  // that every open case has
  for (const MeasuredCase* measured : group) {
    std::int64_t number = 0;
    while (measured->rounds.count(number) > 0) ++number;
    if (measured->open()) n_rounds = std::min(n_rounds, number);
  }
  if (finished(group, n_rounds, deadline_s)) return;

  const std::unique_ptr<CaseRunner> runner = make_runner_(group.front()->result.spec);
  look_at_ceilings(*runner);
  for (MeasuredCase* measured : group) {
    if (measured->open()) check(*measured, *runner);
  }
  for (; !finished(group, n_rounds, deadline_s); ++n_rounds) {
    for (MeasuredCase* measured : group) {
      if (measured->open() && measured->rounds.count(n_rounds) == 0) time_round(*measured, *runner, n_rounds);
    }
  }
  try {
    look_at_ceilings(*runner);
  } catch (const std::runtime_error& error) {  // no reason to lose the rounds: there was a look before them
    remark(fmt::format("the ceilings are those seen before the rounds: {}", error.what()));
  }
}

void Measurement::look_at_ceilings(CaseRunner& runner) {
  if (ceilings_budget_s_ <= 0) return;
  progress_.show("measuring what this machine can read, copy and multiply");
  const Ceilings seen = runner.ceilings(ceilings_budget_s_);
  ceilings_ = ceilings_ ? higher_ceilings(*ceilings_, seen) : seen;
  listener_.on_ceilings(*ceilings_);
}

bool Measurement::finished(const Group& group, std::int64_t n_rounds, double deadline_s) const {
  const bool any_open = std::any_of(group.begin(), group.end(), [](const MeasuredCase* m) { return m->open(); });
  if (!any_open) return true;
  if (n_rounds < policy_.min) return false;
  bool all_narrow = true;
  double next_s = 0;
  for (const MeasuredCase* measured : group) {
    if (!measured->open()) continue;
    all_narrow = all_narrow && narrow(*measured, policy_.target_ci);
    next_s += measured->round_s > 0 || measured->rounds.empty() ? measured->round_s
                                                                : measured->rounds.rbegin()->second.total_s();
  }
  return all_narrow || n_rounds >= policy_.max || spent_s() + next_s > deadline_s;
}

void Measurement::end_case(MeasuredCase& measured, const CaseOutcome& outcome) {
  measured.result.status = outcome.status;
  measured.result.reason = outcome.reason;
  listener_.on_outcome(measured.result.spec, std::nullopt, outcome);
}

void Measurement::check(MeasuredCase& measured, CaseRunner& runner) {
  const CaseOutcome outcome = runner.check(measured.result.spec);
  if (outcome.status == Status::ok) {
    measured.round_s = outcome.round->total_s();
    measured.result.warnings = outcome.warnings;
    measured.result.output = outcome.output;
  } else {
    end_case(measured, outcome);
  }
  measured.checked = true;
  report_progress(measured, measured.open() ? "checked" : std::string(status_name(outcome.status)));
}

void Measurement::time_round(MeasuredCase& measured, CaseRunner& runner, std::int64_t number) {
  CaseResult& result = measured.result;
  CaseOutcome outcome = runner.round(result.spec, number);
  if (outcome.status == Status::ok) {
    outcome.reason =
        work_difference(result.spec, measured.config, outcome.round->prefill_work, outcome.round->decode_work);
    if (outcome.reason.empty() && outcome.output.tokens_sha256 != result.output.tokens_sha256) {
      outcome.reason = fmt::format("round {} gave other tokens than the output check", number + 1);
    }
    if (!outcome.reason.empty()) outcome.status = Status::failed;
  }
  if (outcome.status == Status::ok) {
    outcome.warnings = result.warnings;  // those of the check hold for every round
    measured.round_s = outcome.round->total_s();
    measured.rounds[number] = *outcome.round;
    fold_rounds(measured);
    listener_.on_outcome(result.spec, number, outcome);
  } else {
    outcome.round.reset();
    end_case(measured, outcome);
  }
  report_progress(measured,
                  measured.open() ? fmt::format("round {}", number + 1) : std::string(status_name(result.status)));
}

void Measurement::report_progress(const MeasuredCase& measured, const std::string& what) {
  const auto index = &measured - cases_.data() + 1;
  const double left_s = remaining_s();
  const double fraction = left_s < 0 ? -1 : spent_s() / std::max(spent_s() + left_s, 1e-9);
  progress_.show(fraction,
                 fmt::format("[{}/{}] {}: {}, {:.2f} s; elapsed {}, remaining {}", index, cases_.size(),
                             case_label(measured.result.spec), what, measured.round_s, clock_text(watch_.elapsed_s()),
                             left_s < 0 ? "unknown" : "at most " + clock_text(left_s)));
}

double Measurement::remaining_s() const {
  double known_s = 0;
  double known_flops = 0;
  for (const MeasuredCase& measured : cases_) {
    if (measured.round_s <= 0) continue;
    known_s += measured.round_s;
    known_flops += static_cast<double>(planned_flops(measured.result.spec, measured.config));
  }
  if (known_flops <= 0) return -1;
  double least_s = 0;
  double most_s = 0;
  for (const MeasuredCase& measured : cases_) {
    if (!measured.open()) continue;
    const auto flops = static_cast<double>(planned_flops(measured.result.spec, measured.config));
    const double round_s = measured.round_s > 0 ? measured.round_s : known_s * flops / known_flops;
    const auto done = static_cast<double>(measured.rounds.size());
    const double check_s = measured.checked ? 0 : round_s;
    least_s += check_s + round_s * std::max(0.0, static_cast<double>(policy_.min) - done);
    most_s += check_s + round_s * std::max(0.0, static_cast<double>(policy_.max) - done);
  }
  return std::max(least_s, std::min(most_s, policy_.budget_s - spent_s()));
}

namespace {

/// What drawn K and V need.
void check_kv_fill(const Case& spec) {
  if (spec.workload.kv_fill == KvFill::prefill) return;
  if (spec.variant.cache == CacheKind::none) {
    throw InputError("kv_fill random: cache none keeps no K and V that could be drawn; use contiguous, qkv or paged");
  }
  if (spec.workload.depth == 0) {
    throw InputError("kv_fill random: it draws the K and V of `depth` tokens, and the depth is 0");
  }
}

}  // namespace

void check_case(const Case& spec, const ModelConfig& config) {
  try {
    resolve_kv_heads(spec.variant, config.n_heads, config.n_kv_heads);
    check_kv_fill(spec);
    const std::int64_t needed = needed_capacity(spec.workload);
    if (needed > config.context_length) {
      throw InputError(fmt::format("depth + prompt + generated tokens take {} positions; the context holds {}", needed,
                                   config.context_length));
    }
    if (spec.variant.kv_capacity > 0 && spec.variant.kv_capacity < needed) {
      throw InputError(fmt::format("depth + prompt + generated tokens take {} positions; kv_capacity is {}", needed,
                                   spec.variant.kv_capacity));
    }
    planned_flops(spec, config);  // refuses work that no count can hold
  } catch (const InputError& error) {
    throw InputError(fmt::format("case {} of {}: {}", case_label(spec), spec.model, error.what()));
  }
}

std::string case_label(const Case& spec) {
  const Workload& workload = spec.workload;
  const char* drawn = workload.kv_fill == KvFill::random ? " with random K and V" : "";
  return fmt::format("{}{}{}, {} + {} tokens", variant_label(spec.variant),
                     workload.batch > 1 ? fmt::format(", batch {}", workload.batch) : "",
                     workload.depth > 0 ? fmt::format(", depth {}{}", workload.depth, drawn) : "",
                     workload.prompt_tokens, workload.gen_tokens);
}

std::int64_t planned_flops(const Case& spec, const ModelConfig& config) {
  const WorkCounters prefill = prefill_work(config, spec.variant, spec.workload);
  const WorkCounters decode = decode_work(config, spec.variant, spec.workload);
  return prefill.gemm_flops + prefill.attention_flops + decode.gemm_flops + decode.attention_flops;
}

}  // namespace kvlab
