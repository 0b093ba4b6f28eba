// The measured loop: nothing but a pass and a choice stands between two looks at the clock.
#include "harness/round.h"

#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "harness/interrupt.h"
#include "harness/progress.h"
#include "model/sampling/sampler.h"

namespace kvlab {

namespace {

/// The greedy id of every sequence, or the forced ones: [batch]. `Model` is a Decoder or stands for one.
template <typename Model>
std::vector<std::int32_t> choose(const Model& model, Sampler& sampler, const RoundOptions& options, std::size_t step) {
  std::vector<std::int32_t> ids;
  for (std::int64_t seq = 0; seq < model.n_seqs(); ++seq) {
    const std::vector<float> spoilt(options.nan_logits ? model.logits(seq).size() : 0, std::nanf(""));
    const std::span<const float> logits = options.nan_logits ? std::span<const float>(spoilt) : model.logits(seq);
    const std::int32_t id = sampler.choose(logits, options.n_choices, SamplingSettings{});
    ids.push_back(options.forced == nullptr ? id : (*options.forced)[static_cast<std::size_t>(seq)][step]);
  }
  return ids;
}

/// What is kept of a pass after its clock has stopped.
void record(Round& round, const std::vector<std::int32_t>& ids, const Decoder& decoder, const RoundOptions& options) {
  const WorkCounters& work = decoder.last_work();
  for (std::size_t seq = 0; seq < ids.size(); ++seq) round.tokens[seq].push_back(ids[seq]);
  round.step_rows.push_back(work.kv_projection_rows);
  round.step_dots.push_back(work.attention_dots.front());
  if (options.after_pass) options.after_pass(static_cast<std::int64_t>(round.step_rows.size()) - 1, decoder);
}

/// The decode steps of a round, each timed by itself. `ids` are the first token of every sequence; `keep(ids)` sees
/// those of each step after its clock has stopped. Returns the times, [gen_tokens - 1].
template <typename Model, typename Keep>
std::vector<double> timed_steps(Model& model, Sampler& sampler, const RoundOptions& options, std::int64_t gen_tokens,
                                std::vector<std::int32_t> ids, Keep keep) {
  std::vector<double> step_s;
  for (std::int64_t step = 1; step < gen_tokens; ++step) {
    stop_if_interrupted();
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
  Sampler sampler(spec.seed);
  Round round;
  round.tokens.resize(static_cast<std::size_t>(workload.batch));
  if (workload.depth > 0) decoder.prefill(tokens.depth);

  stop_if_interrupted();
  const Stopwatch prefill_watch;
  decoder.prefill(tokens.prompt);
  round.prefill_s = prefill_watch.elapsed_s();
  const std::vector<std::int32_t> ids = choose(decoder, sampler, options, 0);
  round.ttft_s = prefill_watch.elapsed_s();
  round.prefill_work = decoder.last_work();
  record(round, ids, decoder, options);

  const auto keep = [&](const std::vector<std::int32_t>& chosen) {
    round.decode_work += decoder.last_work();
    record(round, chosen, decoder, options);
  };
  round.step_s = timed_steps(decoder, sampler, options, workload.gen_tokens, ids, keep);
  round.kv = decoder.kv();
  round.workspace_bytes = decoder.workspace_bytes();
  return round;
}

std::vector<double> time_empty_steps(std::int64_t n_steps) {
  EmptyModel model;
  Sampler sampler(1);
  RoundOptions options;
  options.n_choices = 1;
  return timed_steps(model, sampler, options, n_steps + 1, {0}, [](const std::vector<std::int32_t>&) {});
}

}  // namespace kvlab
