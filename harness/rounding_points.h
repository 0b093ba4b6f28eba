// Where a backend rounds activations in the passes of a proof: what the float64 reference has to round as well.
#pragma once

#include <cstdint>

#include "kernels/operations.h"
#include "model/model_config.h"
#include "model/reference_rounding.h"
#include "variants/variant.h"

namespace kvlab {

/// Of one sequence of `n_tokens`: the first `prompt_tokens` go through the prefill, each of the others through a decode
/// step. `config` has the variant's heads. Nothing where the backend rounds no activations.
ReferenceRounding rounding_points(const Operations& ops, const ModelConfig& config, const Variant& variant,
                                  std::int64_t n_tokens, std::int64_t prompt_tokens);

}  // namespace kvlab
