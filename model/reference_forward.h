// The float64 path: a whole sequence at once, straight from the formulas, no cache, nothing shared with the
// transformer.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/dtype.h"
#include "model/reference_rounding.h"
#include "model/weight_source.h"

namespace kvlab {

/// Logits [rows, vocab_size] in float64 of the last `rows` tokens of one sequence. Weights are rounded to
/// `weight_dtype` first (they are what every variant of that dtype holds); all arithmetic is float64, between what
/// `rounding` rounds. `noise`: the seed of a ArithmeticNoise; 0: none.
std::vector<double> reference_logits(const WeightSource& weights, std::span<const std::int32_t> tokens,
                                     std::int64_t rows, DType weight_dtype,
                                     const std::function<void(std::int64_t, std::int64_t)>& progress = {},
                                     const ReferenceRounding& rounding = {}, std::uint64_t noise = 0);

}  // namespace kvlab
