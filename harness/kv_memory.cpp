#include "harness/kv_memory.h"

#include "harness/accounting.h"
#include "harness/exact.h"
#include "harness/round.h"

namespace kvlab {

KvMemory kv_memory(const CaseResult& result, const ModelConfig& config) {
  const Variant& variant = result.spec.variant;
  Variant slot = variant;
  slot.page_size = 1;  // a single token, not the page that holds it
  KvMemory memory;
  memory.theoretical_bytes =
      (Exact(kv_reserved_bytes(config, slot, result.spec.workload.batch, 1)) * needed_capacity(result.spec.workload))
          .value();
  const std::int64_t waste = result.kv.reserved_bytes - result.kv.used_bytes;
  (variant.cache == CacheKind::paged ? memory.tail_waste_bytes : memory.reserve_waste_bytes) = waste;
  return memory;
}

}  // namespace kvlab
