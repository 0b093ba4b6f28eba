#include "harness/check_memory.h"

#include <algorithm>

#include "harness/accounting.h"
#include "harness/exact.h"
#include "harness/output_check.h"
#include "harness/round.h"
#include "harness/workspace_accounting.h"

namespace kvlab {

std::int64_t run_bytes(const Case& spec, const ModelConfig& config, const Operations& ops, std::int64_t limit_bytes) {
  const std::int64_t kv = kv_reserved_bytes(config, spec.variant, spec.workload.batch, reserved_capacity(spec));
  if (kv > limit_bytes) return kv;
  return (Exact(kv) + workspace_bytes(reheaded_config(config, spec.variant), spec.variant, spec.workload, ops)).value();
}

bool splits_reference(const Case& reference, const ModelConfig& config, const Operations& ops,
                      std::int64_t limit_bytes) {
  return reference.workload.batch > 1 && run_bytes(reference, config, ops, limit_bytes) > limit_bytes;
}

Case one_sequence(const Case& spec) {
  Case one = spec;
  one.workload.batch = 1;
  return one;
}

std::int64_t checked_run_bytes(const Case& spec, const ModelConfig& config, const Operations& ops,
                               std::int64_t limit_bytes) {
  const std::int64_t own = run_bytes(spec, config, ops, limit_bytes);
  if (own > limit_bytes) return own;
  const Case reference = reference_case(spec, config);
  const bool splits = splits_reference(reference, config, ops, limit_bytes);
  return std::max(own, run_bytes(splits ? one_sequence(reference) : reference, config, ops, limit_bytes));
}

}  // namespace kvlab
