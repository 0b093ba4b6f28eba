// What a device can read, copy and multiply per second, by its own clock.
#pragma once

#include <optional>

#include "harness/ceilings.h"
#include "kernels/operations.h"

namespace kvlab {

/// The fastest of several passes each, over memory that no cache holds; takes a few seconds on a GPU. Nothing for a
/// backend without a clock of its own. Throws OutOfMemory when some 2 GB are not free.
std::optional<Ceilings> measure_device_ceilings(Operations& ops);

}  // namespace kvlab
