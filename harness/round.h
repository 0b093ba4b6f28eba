// One generation of a case: passes timed one by one, work counted, tokens kept.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/case.h"
#include "harness/disturbance.h"
#include "harness/prompt.h"
#include "model/decoder.h"

namespace kvlab {

struct Round {
  double ttft_s = 0;                     // token ids ready -> first token chosen
  double prefill_s = 0;                  // the prefill pass alone
  std::vector<double> step_s;            // [gen_tokens - 1] from one choice on the host to the next
  std::vector<double> device_prefill_s;  // one entry, by the device's clock; empty where it has none
  std::vector<double> device_step_s;     // [gen_tokens - 1] the same
  std::vector<std::int64_t> step_rows;   // [gen_tokens] rows projected to K and V; the first entry is the prefill
  std::vector<std::int64_t> step_dots;   // [gen_tokens] one head, the first layer
  std::vector<std::vector<std::int32_t>> tokens;  // [batch][gen_tokens]
  WorkCounters prefill_work;
  WorkCounters decode_work;
  KvFootprint kv;
  CaseTransfers transfers;  // `load` is filled by the caller of run_round
  std::int64_t workspace_bytes = 0;
  std::string gemv;         // Operations::product_choices; filled by the caller of run_round
  Disturbance disturbance;  // filled by the caller of run_round

  /// Of the measured passes.
  double total_s() const;
};

/// Hears where a round is, outside its timed parts. Pass 0 is the prefill of the measured prompt, pass i decode step i.
class PassWatcher {
 public:
  virtual ~PassWatcher() = default;
  virtual void before_pass(std::int64_t pass) = 0;
  virtual void after_pass(std::int64_t pass) = 0;
};

struct RoundOptions {
  std::int64_t n_choices = 0;                                      // ids at or above it are never chosen
  const std::vector<std::vector<std::int32_t>>* forced = nullptr;  // [batch][>= gen_tokens]: fed instead of the choice
  std::function<void(std::int64_t, const Decoder&)> after_pass;    // (pass, decoder), outside the timed part
  PassWatcher* watcher = nullptr;                                  // null: nobody
  bool nan_logits = false;                                         // a planted fault (harness/isolation/fault.h)
};

/// Tokens a sequence needs room for: the last one generated is never fed back.
std::int64_t needed_capacity(const Workload& workload);
/// Tokens a sequence gets room for: what the variant asks for, or what is needed.
std::int64_t reserved_capacity(const Case& spec);

/// Greedy; ignores EOS. Throws Interrupted between passes.
Round run_round(Transformer& transformer, const Case& spec, const WorkloadTokens& tokens, const RoundOptions& options);

/// The times of `n_steps` decode steps of the same loop with a model that does nothing: what the harness itself adds to
/// a step. Seconds.
std::vector<double> time_empty_steps(std::int64_t n_steps);

}  // namespace kvlab
