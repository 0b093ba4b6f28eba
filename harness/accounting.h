// The formulas of SPEC S12, S15-S18 and S22 in one table: exact integers for rows, dots, FLOPs and bytes. What the
// decoder counts while running must equal these to the last unit.
#pragma once

#include <cstdint>

#include "harness/case.h"
#include "model/model_config.h"
#include "model/work_counters.h"
#include "variants/variant.h"

namespace kvlab {

/// The work of the measured prefill (all chunks, all sequences, after `depth` cached tokens; without a cache the depth
/// rows are recomputed in it). `config` is the model's own, before re-heading.
WorkCounters prefill_work(const ModelConfig& config, const Variant& variant, const Workload& workload);
/// The work of decode step i = 1 .. gen_tokens - 1.
WorkCounters decode_step_work(const ModelConfig& config, const Variant& variant, const Workload& workload,
                              std::int64_t i);
/// All decode steps of a run.
WorkCounters decode_work(const ModelConfig& config, const Variant& variant, const Workload& workload);

/// The configuration with `heads` applied.
ModelConfig reheaded_config(const ModelConfig& config, const Variant& variant);

/// Bytes of all weights as stored for the variant: every parameter once, a tied embedding once.
std::int64_t stored_weight_bytes(const ModelConfig& config, const Variant& variant);

/// KV memory reserved for a workload: `tokens` tokens a sequence (0 for cache none).
std::int64_t kv_reserved_bytes(const ModelConfig& config, const Variant& variant, std::int64_t batch,
                               std::int64_t tokens);

}  // namespace kvlab
