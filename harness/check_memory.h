// What a case and the check of its output hold beside weights, and when the reference has to go sequence by sequence.
#pragma once

#include <cstdint>

#include "harness/case.h"
#include "kernels/operations.h"
#include "model/model_config.h"

namespace kvlab {

/// KV cache and workspace of a run. Beyond `limit_bytes` the cache alone: such a batch may be too large to go through
/// its passes. `config` is the model's own.
std::int64_t run_bytes(const Case& spec, const ModelConfig& config, const Operations& ops, std::int64_t limit_bytes);

/// The reference keeps K and V in f32, also of a case in bf16: it may be too large where the case is not. Then each
/// sequence goes through it alone.
bool splits_reference(const Case& reference, const ModelConfig& config, const Operations& ops,
                      std::int64_t limit_bytes);
/// The same case with one sequence.
Case one_sequence(const Case& spec);

/// The most that a case and its reference hold at one time: they run one after the other.
std::int64_t checked_run_bytes(const Case& spec, const ModelConfig& config, const Operations& ops,
                               std::int64_t limit_bytes);

}  // namespace kvlab
