// Ceilings as JSON (what a sweep stores beside its rounds and what a worker answers), and the higher of two.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/ceilings.h"

namespace kvlab {

nlohmann::ordered_json ceilings_json(const Ceilings& ceilings);
/// Throws nlohmann::json::exception for what `ceilings_json` did not write; what an older one left out stays 0.
Ceilings ceilings_from_json(const nlohmann::json& json);

/// The better of each number, the higher rate and the shorter time: what a busy moment hid is found by measuring more
/// than once.
Ceilings higher_ceilings(const Ceilings& a, const Ceilings& b);

}  // namespace kvlab
