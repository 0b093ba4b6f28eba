// Whether the work that was counted while running is what the formulas say (harness/accounting.h).
#pragma once

#include <string>

#include "harness/case.h"
#include "model/model_config.h"

namespace kvlab {

/// "" when all counters of both phases agree to the last unit, otherwise the first that differs: "decode rows: counted
/// 3, the formula gives 4". `prefill` and `decode`: counted in one round. `config` is the model's own.
std::string work_difference(const Case& spec, const ModelConfig& config, const WorkCounters& prefill,
                            const WorkCounters& decode);

}  // namespace kvlab
