// One layer of a checkpoint as a model of its own, so that a model too large for the float64 reference can be checked
// layer by layer.
#pragma once

#include <cstdint>
#include <memory>

#include "model/weight_source.h"

namespace kvlab {

/// The checkpoint's embedding, its layer `layer`, its final norm and its head. Throws InputError when there is no such
/// layer.
std::unique_ptr<WeightSource> one_layer(std::shared_ptr<const WeightSource> source, std::int64_t layer);

}  // namespace kvlab
