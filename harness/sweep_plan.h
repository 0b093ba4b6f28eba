// What a sweep will take, before it runs: `kvlab sweep --dry-run`.
#pragma once

#include <string>
#include <vector>

#include "harness/ceilings.h"
#include "harness/measurement.h"

namespace kvlab {

/// Seconds of one round: each phase bound by products or by memory, at kPlannedShare of the ceilings.
double planned_round_s(const Case& spec, const ModelConfig& config, const Ceilings& ceilings);

/// What cases usually reach of the ceilings.
constexpr double kPlannedShare = 0.5;

/// A line per case with FLOPs, bytes and time of a round and memory, then the time of the whole.
std::string sweep_plan_text(const std::vector<MeasuredCase>& cases, const RoundPolicy& policy,
                            const Ceilings& ceilings);

}  // namespace kvlab
