// Where the memory of a KV cache goes: what the tokens need, and what is set aside beyond that, by cause.
#pragma once

#include <cstdint>

#include "harness/case.h"
#include "model/model_config.h"

namespace kvlab {

struct KvMemory {
  std::int64_t theoretical_bytes = 0;    // bytes per token by formula x tokens at the end of a round
  std::int64_t tail_waste_bytes = 0;     // free slots in the last page of each sequence
  std::int64_t reserve_waste_bytes = 0;  // free slots of regions that were set aside whole
};

/// `config` is the model's own, before re-heading. Waste comes from what the cache itself reported.
KvMemory kv_memory(const CaseResult& result, const ModelConfig& config);

}  // namespace kvlab
