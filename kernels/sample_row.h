// One id from one row of logits, on the host. Settings are taken as they are: model/sampling checks them.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/sampling.h"

namespace kvlab {

/// The id that is chosen from `logits` [n_choices], or kNoChoice.
std::int32_t sample_row(std::span<const float> logits, const RowSampling& sampling);

}  // namespace kvlab
