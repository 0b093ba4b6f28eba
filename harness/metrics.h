// From samples and counters to the numbers of a report: rates, summaries, shares, and whether a row can be right.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/ceilings.h"
#include "harness/hardware.h"
#include "harness/kv_memory.h"
#include "harness/statistics.h"
#include "model/model_config.h"

namespace kvlab {

/// Of a set of timings in seconds. What there are too few samples for is absent.
struct Summary {
  std::optional<double> mean, p50, p90, p95, p99, max;
  std::optional<double> mad;     // median absolute deviation
  std::optional<Interval> ci95;  // of the median
};

/// Where a phase stands under the roof that the measured ceilings make (Williams, Waterman and Patterson 2009).
struct Roofline {
  std::optional<double> intensity;               // FLOP a byte
  std::optional<double> attainable_flops_per_s;  // the ceiling of products, or intensity times that of reading
  std::optional<double> attained_share;          // flops_per_s over it
  std::optional<bool> bound_by_compute;          // otherwise by memory
};

struct PhaseMetrics {
  std::optional<double> tokens_per_s;
  std::optional<std::int64_t> flops;
  std::optional<double> flops_per_s;
  std::optional<double> mfu;
  std::optional<double> attention_share;  // of the FLOPs
  std::optional<std::int64_t> bytes;      // weights once a pass + KV read + KV written
  Roofline roofline;
  std::optional<double> datasheet_mfu, datasheet_mbu;
};

struct Metrics {
  PhaseMetrics prefill;
  PhaseMetrics decode;
  std::optional<double> bytes_per_step, bytes_per_s, mbu;
  Summary ttft_s, step_s, device_step_s;
  std::optional<double> e2e_s, prefill_share, decode_share, step_growth;
  std::optional<Estimate> step_slope_s_per_token;
  std::optional<double> waste_fraction;
  KvMemory kv;
  WorkCounters work;  // prefill and decode of one round
};

/// A result with all that follows from it. `status`, `reason` and `warnings` start as the runner's; an ok result that
/// cannot be right becomes `invalid`.
struct JudgedResult {
  CaseResult result;
  std::optional<Metrics> metrics;  // of ok and invalid results
};

/// `config` is the model's own, before re-heading. `datasheet` is that of the device, where there is one.
JudgedResult judge(const CaseResult& result, const ModelConfig& config, const std::optional<Ceilings>& ceilings,
                   const std::optional<Hardware>& datasheet = std::nullopt);

}  // namespace kvlab
