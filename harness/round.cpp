// The measured loop: nothing but a pass and a choice stands between two looks at the clock.
#include "harness/round.h"

#include <cmath>
#include <numeric>
#include <span>

#include "harness/interrupt.h"
#include "harness/progress.h"
#include "model/sampling/sampler.h"

namespace kvlab {

namespace {

/// The greedy id of every sequence, or the forced ones: [batch].
std::vector<std::int32_t> choose(const Decoder& decoder, Sampler& sampler, const RoundOptions& options,
                                 std::size_t step) {
  std::vector<std::int32_t> ids;
  for (std::int64_t seq = 0; seq < decoder.n_seqs(); ++seq) {
    const std::vector<float> spoilt(options.nan_logits ? decoder.logits(seq).size() : 0, std::nanf(""));
    const std::span<const float> logits = options.nan_logits ? std::span<const float>(spoilt) : decoder.logits(seq);
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
  std::vector<std::int32_t> ids = choose(decoder, sampler, options, 0);
  round.ttft_s = prefill_watch.elapsed_s();
  round.prefill_work = decoder.last_work();
  record(round, ids, decoder, options);

  for (std::int64_t step = 1; step < workload.gen_tokens; ++step) {
    stop_if_interrupted();
    const Stopwatch step_watch;
    decoder.decode(ids);
    ids = choose(decoder, sampler, options, static_cast<std::size_t>(step));
    round.step_s.push_back(step_watch.elapsed_s());
    round.decode_work += decoder.last_work();
    record(round, ids, decoder, options);
  }
  round.kv = decoder.kv();
  round.workspace_bytes = decoder.workspace_bytes();
  return round;
}

}  // namespace kvlab
