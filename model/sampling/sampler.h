// Chooses one id from a row of logits: greedy, temperature, top-k, top-p, seeded.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/sampling.h"

namespace kvlab {

/// Throws InputError naming the setting when it is NaN, negative, or top_p is above 1.
void check_sampling(const SamplingSettings& settings);

class Sampler {
 public:
  explicit Sampler(std::uint64_t seed);
  /// `logits` [vocab]; ids at or above `n_choices` are never chosen (padded rows of the LM head). Throws
  /// std::runtime_error when no logit is finite or one is NaN.
  std::int32_t choose(std::span<const float> logits, std::int64_t n_choices, const SamplingSettings& settings);

 private:
  std::uint64_t state_;
};

}  // namespace kvlab
