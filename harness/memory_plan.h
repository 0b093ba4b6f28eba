// Memory of a run by part, and how much of it a device can hold: arithmetic alone.
#pragma once

#include <cstdint>

#include "kernels/operations.h"
#include "model/model_config.h"
#include "variants/variant.h"

namespace kvlab {

/// Sequences beyond which no plan is made.
constexpr std::int64_t kMostSequences = std::int64_t{1} << 20;

/// Left out, since it does not grow with the choices: the program, its libraries, prepared products, RoPE tables.
struct MemoryPlan {
  std::int64_t weight_bytes = 0;       // as held: a tied embedding may be there twice, as table and as matrix
  std::int64_t kv_bytes = 0;           // reserved, page tables included
  std::int64_t prefill_workspace = 0;  // bytes of the largest prefill pass
  std::int64_t decode_workspace = 0;   // bytes of the step that sees the whole context

  std::int64_t workspace_bytes() const {
    return prefill_workspace > decode_workspace ? prefill_workspace : decode_workspace;
  }
  std::int64_t total_bytes() const { return weight_bytes + kv_bytes + workspace_bytes(); }
};

/// Weights as a transformer over `ops` holds them, matrices without a backend's padding. `config` is the model's own.
std::int64_t held_weight_bytes(const ModelConfig& config, const Variant& variant, const Operations& ops);

/// `batch` sequences of `context` tokens (kv_capacity tokens reserved where that is larger), brought by a prefill.
/// `config` is the model's own; `ops` tells the scratch of its attention and how it holds weights.
MemoryPlan plan_memory(const ModelConfig& config, const Variant& variant, std::int64_t context, std::int64_t batch,
                       const Operations& ops);

/// The most sequences of `context` tokens that fit, at most kMostSequences; 0 when not one does.
std::int64_t largest_batch(const ModelConfig& config, const Variant& variant, std::int64_t context,
                           std::int64_t memory_bytes, const Operations& ops);
/// The most tokens a sequence with which `batch` sequences fit, at most the model's context; 0 when not one does.
std::int64_t largest_context(const ModelConfig& config, const Variant& variant, std::int64_t batch,
                             std::int64_t memory_bytes, const Operations& ops);

}  // namespace kvlab
