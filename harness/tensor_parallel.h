// A model split over equal devices by tensor parallelism (Shoeybi et al. 2019), as a plan sees it: what one device
// holds, and what the devices send each other.
//
// Query heads, KV heads and the MLP are split evenly; the vocabulary too, padded to a multiple of the number of
// devices. Norms, biases of the output projections and the residual stream are on each device. A layer sums its
// attention and its MLP over the devices, the embedding is summed once, and the logits are gathered; all of it in f32.
#pragma once

#include <cstdint>

#include "model/model_config.h"
#include "variants/variant.h"

namespace kvlab {

/// The shape that one of `gpus` devices works on. `config` is after re-heading. Throws InputError when its KV heads or
/// its MLP cannot be split in so many parts, naming the counts that can.
ModelConfig shard_config(const ModelConfig& config, std::int64_t gpus);

/// Bytes that each device sends when `rows` rows, `logit_rows` of them with logits, go through the model: a ring
/// all-reduce of S bytes sends 2 (gpus - 1) / gpus S, a ring gather of S bytes in all (gpus - 1) / gpus S.
double sent_bytes(const ModelConfig& config, const Variant& variant, std::int64_t rows, std::int64_t logit_rows,
                  std::int64_t gpus);

}  // namespace kvlab
