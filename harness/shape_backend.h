// A backend and weights without values: a transformer over them goes through every step with true shapes and counts and
// computes nothing, so that a model can be traced whose weights do not fit this machine.
#pragma once

#include <memory>

#include "kernels/operations.h"
#include "model/model_config.h"
#include "model/weight_source.h"

namespace kvlab {

/// Matrices remember their shape only; products and norms write nothing; attention counts the dots it would execute.
std::unique_ptr<Operations> make_shape_operations();

/// Matrices of the right shape without values; vectors, which the forward pass measures, are zeros. `config` is after
/// re-heading.
std::unique_ptr<WeightSource> make_shape_weights(const ModelConfig& config);

}  // namespace kvlab
