// One choice on every axis: the identity of what is measured. Axes, allowed values and their sentences: registry.h.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/dtype.h"
#include "kernels/operations.h"

namespace kvlab {

enum class CacheKind { none, contiguous, paged, qkv };
enum class HeadsKind { model, mha, mqa, gqa };
enum class LogitsKind { last, all };
enum class PruneKind { none, last_layer };
enum class ProjectionKind { fused, separate };
enum class ExecutionKind { eager, graph };
enum class SamplingKind { host, device };

struct Variant {
  CacheKind cache = CacheKind::contiguous;
  AttentionKind prefill_attention = AttentionKind::fused;
  AttentionKind decode_attention = AttentionKind::fused;
  HeadsKind heads = HeadsKind::model;
  std::int64_t gqa_kv_heads = 0;  // G of heads = gqa:G
  ExecutionKind execution = ExecutionKind::eager;
  LogitsKind logits = LogitsKind::last;
  PruneKind prune = PruneKind::none;
  ProjectionKind projection = ProjectionKind::fused;
  SamplingKind sampling = SamplingKind::host;
  DType weight_dtype = DType::f32;
  DType kv_dtype = DType::f32;
  std::int64_t page_size = 16;     // slots a page; paged only
  std::int64_t kv_capacity = 0;    // tokens reserved a sequence; 0: what the workload needs
  std::int64_t prefill_chunk = 0;  // rows a sequence per prefill pass; 0: the whole prompt in one pass

  bool operator==(const Variant&) const = default;
};

/// KV heads after re-heading. Throws InputError when the choice does not fit the model's own numbers.
std::int64_t resolve_kv_heads(const Variant& variant, std::int64_t n_heads, std::int64_t model_kv_heads);

/// The last layer is pruned only when nobody reads the other rows.
inline bool prunes_last_layer(const Variant& variant) {
  return variant.prune == PruneKind::last_layer && variant.logits == LogitsKind::last;
}

}  // namespace kvlab
