// The measured loop: nothing but a pass and a choice stands between two looks at the clock.
#include "harness/round.h"

#include <array>
#include <cmath>
#include <deque>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "harness/interrupt.h"
#include "harness/progress.h"
#include "model/profiler_range.h"
#include "model/sampling/sampler.h"

namespace kvlab {

namespace {

/// The greedy id of every sequence, or the forced ones: [batch]. `Model` is a Decoder or stands for one.
template <typename Model>
std::vector<std::int32_t> choose(const Model& model, Sampler& sampler, const RoundOptions& options, std::size_t step) {
  const ProfilerRange range("choose tokens");
  std::vector<std::int32_t> ids;
  for (std::int64_t seq = 0; seq < model.n_seqs(); ++seq) {
    const std::vector<float> spoilt(options.nan_logits ? model.logits(seq).size() : 0, std::nanf(""));
    const std::span<const float> logits = options.nan_logits ? std::span<const float>(spoilt) : model.logits(seq);
    const std::int32_t id = sampler.choose(logits, options.n_choices, SamplingSettings{});
    ids.push_back(options.forced == nullptr ? id : (*options.forced)[static_cast<std::size_t>(seq)][step]);
  }
  return ids;
}

void keep_time(std::optional<double> device_s, std::vector<double>& times) {
  if (device_s) times.push_back(*device_s);
}

/// Tokens that are given, or logits that are spoilt, go through the host.
bool chooses_on_device(const Variant& variant, const RoundOptions& options) {
  return variant.sampling == SamplingKind::device && options.forced == nullptr && !options.nan_logits;
}

/// A Decoder whose device chooses and feeds its choice back. It may run one step ahead: then the next step is on its
/// way before the host waits for the ids of this one.
class DeviceChooser {
 public:
  DeviceChooser(Decoder& decoder, std::int64_t n_steps, bool ahead)
      : decoder_(decoder), n_left_(n_steps), n_ahead_(ahead ? 1 : 0) {}

  void decode(std::span<const std::int32_t>) {
    for (; n_left_ > 0 && works_.size() <= n_ahead_; --n_left_) {
      decoder_.decode_chosen();
      works_.push_back(decoder_.last_work());
    }
  }
  std::vector<std::int32_t> take_choices() {
    last_work_ = std::move(works_.front());
    works_.pop_front();
    return decoder_.take_choices();
  }
  /// Of the step whose choices were taken last.
  const WorkCounters& last_work() const { return last_work_; }

 private:
  Decoder& decoder_;
  std::int64_t n_left_;  // steps not issued yet
  std::size_t n_ahead_;
  std::deque<WorkCounters> works_;  // of the steps under way
  WorkCounters last_work_;
};

std::vector<std::int32_t> choose(DeviceChooser& model, Sampler&, const RoundOptions&, std::size_t) {
  const ProfilerRange range("choose tokens");
  return model.take_choices();
}

/// What is kept of a pass after its clock has stopped.
void record(Round& round, const std::vector<std::int32_t>& ids, const WorkCounters& work, const Decoder& decoder,
            const RoundOptions& options) {
  for (std::size_t seq = 0; seq < ids.size(); ++seq) round.tokens[seq].push_back(ids[seq]);
  round.step_rows.push_back(work.kv_projection_rows);
  round.step_dots.push_back(work.attention_dots.front());
  const auto pass = static_cast<std::int64_t>(round.step_rows.size()) - 1;
  if (options.after_pass) options.after_pass(pass, decoder);
  if (options.watcher != nullptr) options.watcher->after_pass(pass);
}

/// The decode steps of a round, each timed by itself. `ids` are the first token of every sequence; `keep(ids)` sees
/// those of each step after its clock has stopped. Returns the times, [gen_tokens - 1].
template <typename Model, typename Keep>
std::vector<double> timed_steps(Model& model, Sampler& sampler, const RoundOptions& options, std::int64_t gen_tokens,
                                std::vector<std::int32_t> ids, Keep keep) {
  std::vector<double> step_s;
  for (std::int64_t step = 1; step < gen_tokens; ++step) {
    stop_if_interrupted();
    if (options.watcher != nullptr) options.watcher->before_pass(step);
    const Stopwatch step_watch;
    model.decode(ids);
    ids = choose(model, sampler, options, static_cast<std::size_t>(step));
    step_s.push_back(step_watch.elapsed_s());
    keep(ids);
  }
  return step_s;
}

/// Stands for a Decoder of one sequence whose pass does nothing and whose vocabulary has one entry.
class EmptyModel {
 public:
  void decode(std::span<const std::int32_t>) {}
  std::int64_t n_seqs() const { return 1; }
  std::span<const float> logits(std::int64_t) const { return logit_; }

 private:
  std::array<float, 1> logit_ = {1.0F};
};

}  // namespace

double Round::total_s() const { return std::accumulate(step_s.begin(), step_s.end(), ttft_s); }

std::int64_t needed_capacity(const Workload& workload) {
  return workload.depth + workload.prompt_tokens + workload.gen_tokens - 1;
}

std::int64_t reserved_capacity(const Case& spec) {
  return spec.variant.kv_capacity > 0 ? spec.variant.kv_capacity : needed_capacity(spec.workload);
}

Round run_round(Transformer& transformer, const Case& spec, const WorkloadTokens& tokens, const RoundOptions& options) {
  const Workload& workload = spec.workload;
  Decoder decoder(transformer, spec.variant, workload.batch, reserved_capacity(spec), spec.seed);
  if (options.n_choices > 0) decoder.set_choosable(options.n_choices);
  Sampler sampler(spec.seed);
  Round round;
  round.tokens.resize(static_cast<std::size_t>(workload.batch));
  if (workload.kv_fill == KvFill::random) {
    decoder.fill(workload.depth, tokens.draw);
  } else if (workload.depth > 0) {
    decoder.prefill(tokens.depth);
    decoder.take_device_s();
    if (spec.variant.sampling == SamplingKind::device) decoder.take_choices();
  }

  stop_if_interrupted();
  if (options.watcher != nullptr) options.watcher->before_pass(0);
  const Stopwatch prefill_watch;
  const Transfers before_prefill = transformer.ops().transfers();
  decoder.prefill(tokens.prompt);
  const bool device_chooses = chooses_on_device(spec.variant, options);
  std::vector<std::int32_t> ids;
  if (device_chooses) ids = decoder.take_choices();  // the prefill is done when its choice is there
  round.prefill_s = prefill_watch.elapsed_s();
  if (!device_chooses) ids = choose(decoder, sampler, options, 0);
  round.ttft_s = prefill_watch.elapsed_s();
  keep_time(decoder.take_device_s(), round.device_prefill_s);
  round.transfers.prefill = transformer.ops().transfers() - before_prefill;
  round.prefill_work = decoder.last_work();
  record(round, ids, decoder.last_work(), decoder, options);

  if (workload.gen_tokens > 1) decoder.rehearse(ids, device_chooses);
  const Transfers before_decode = transformer.ops().transfers();

  const auto keep = [&](const std::vector<std::int32_t>& chosen, const WorkCounters& work) {
    keep_time(decoder.take_device_s(), round.device_step_s);
    round.decode_work += work;
    record(round, chosen, work, decoder, options);
  };
  if (device_chooses) {
    const bool ahead = !options.after_pass && options.watcher == nullptr;  // else a pass has to end before the next
    DeviceChooser chooser(decoder, workload.gen_tokens - 1, ahead);
    round.step_s = timed_steps(chooser, sampler, options, workload.gen_tokens, ids,
                               [&](const auto& chosen) { keep(chosen, chooser.last_work()); });
  } else {
    round.step_s = timed_steps(decoder, sampler, options, workload.gen_tokens, ids,
                               [&](const auto& chosen) { keep(chosen, decoder.last_work()); });
  }
  round.transfers.decode = transformer.ops().transfers() - before_decode;
  round.kv = decoder.kv();
  round.workspace_bytes = decoder.workspace_bytes();
  return round;
}

std::vector<double> time_empty_steps(std::int64_t n_steps) {
  const ProfilerRange range("empty steps");
  EmptyModel model;
  Sampler sampler(1);
  RoundOptions options;
  options.n_choices = 1;
  return timed_steps(model, sampler, options, n_steps + 1, {0}, [](const std::vector<std::int32_t>&) {});
}

}  // namespace kvlab
