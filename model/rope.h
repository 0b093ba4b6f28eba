// Rotary position frequencies (Su et al. 2021) with the scalings in use, and the table of cosines and sines made from
// them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_config.h"

namespace kvlab {

/// Radians per position of each rotated pair, [head_dim / 2], scaling applied.
std::vector<double> rope_frequencies(const ModelConfig& config);

/// Rows [begin, end) of the table for `Operations::rope`, [end - begin, head_dim]: cosines, then sines.
std::vector<float> rope_table(const ModelConfig& config, std::int64_t begin, std::int64_t end);

}  // namespace kvlab
