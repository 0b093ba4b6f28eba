#include "harness/memory_plan.h"

#include <algorithm>

#include "harness/accounting.h"
#include "harness/exact.h"
#include "harness/workspace_accounting.h"

namespace kvlab {
namespace {

std::int64_t page_table_bytes(const Variant& variant, std::int64_t tokens, std::int64_t batch) {
  if (variant.cache != CacheKind::paged) return 0;
  const std::int64_t pages = tokens / variant.page_size + (tokens % variant.page_size == 0 ? 0 : 1);
  return (Exact(pages) * batch * sizeof(std::int32_t)).value();
}

/// The largest n in [1, limit] for which `fits` holds, where it holds for all below one that does; 0: for none.
template <typename Fits>
std::int64_t largest(std::int64_t limit, const Fits& fits) {
  std::int64_t good = 0;
  std::int64_t step = 1;
  while (good < limit && fits(std::min(limit, good + step))) {
    good = std::min(limit, good + step);
    step *= 2;
  }
  for (; step > 0; step /= 2) {
    if (good + step <= limit && fits(good + step)) good += step;
  }
  return good;
}

}  // namespace

std::int64_t held_weight_bytes(const ModelConfig& config, const Variant& variant, const Operations& ops) {
  const Exact stored = stored_weight_bytes(config, variant);
  if (!config.tied_embedding || ops.tables_multiply()) return stored.value();
  const auto element_bytes = static_cast<std::int64_t>(dtype_bytes(variant.weight_dtype));
  return (stored + Exact(config.vocab_size) * config.hidden * element_bytes).value();
}

MemoryPlan plan_memory(const ModelConfig& config, const Variant& variant, std::int64_t context, std::int64_t batch,
                       const Operations& ops) {
  const ModelConfig shape = reheaded_config(config, variant);
  const Workload workload{batch, 0, context, 1};
  const std::int64_t reserved = std::max(context, variant.kv_capacity);
  MemoryPlan memory;
  memory.weight_bytes = held_weight_bytes(config, variant, ops);
  memory.kv_bytes =
      (Exact(kv_reserved_bytes(config, variant, batch, reserved)) + page_table_bytes(variant, reserved, batch)).value();
  memory.prefill_workspace = prefill_workspace_bytes(shape, variant, workload, ops);
  memory.decode_workspace = decode_step_workspace_bytes(shape, variant, workload, 0, ops);
  return memory;
}

std::int64_t largest_batch(const ModelConfig& config, const Variant& variant, std::int64_t context,
                           std::int64_t memory_bytes, const Operations& ops) {
  return largest(kMostSequences, [&](std::int64_t batch) {
    return plan_memory(config, variant, context, batch, ops).total_bytes() <= memory_bytes;
  });
}

std::int64_t largest_context(const ModelConfig& config, const Variant& variant, std::int64_t batch,
                             std::int64_t memory_bytes, const Operations& ops) {
  const std::int64_t limit =
      variant.kv_capacity > 0 ? std::min(variant.kv_capacity, config.context_length) : config.context_length;
  return largest(limit, [&](std::int64_t context) {
    return plan_memory(config, variant, context, batch, ops).total_bytes() <= memory_bytes;
  });
}

}  // namespace kvlab
