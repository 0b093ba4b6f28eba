// Sampling with arithmetic and a generator of our own (kernels/sampling.h), so that a seed means the same ids on every
// platform and on a device.
#include "model/sampling/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/error.h"
#include "kernels/sample_row.h"

namespace kvlab {
namespace {

/// Says why `logits` have no choice.
[[noreturn]] void refuse(std::span<const float> logits) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i]) && logits[i] != HUGE_VALF) continue;
    throw std::runtime_error(fmt::format("the logit of id {} is {}: the forward pass went wrong", i, logits[i]));
  }
  throw std::runtime_error("no logit is finite: there is no token to choose");
}

}  // namespace

void check_sampling(const SamplingSettings& settings) {
  if (!(settings.temperature >= 0.0) || std::isinf(settings.temperature)) {
    throw InputError(fmt::format("temperature {}: must be a number, 0 (greedy) or above", settings.temperature));
  }
  if (settings.top_k < 0) throw InputError(fmt::format("top-k {}: must be 0 (off) or above", settings.top_k));
  if (!(settings.top_p >= 0.0 && settings.top_p <= 1.0)) {
    throw InputError(fmt::format("top-p {}: must lie between 0 and 1 (off)", settings.top_p));
  }
}

Sampler::Sampler(std::uint64_t seed) : state_(seed) {}

std::int32_t Sampler::choose(std::span<const float> logits, std::int64_t n_choices, const SamplingSettings& settings) {
  check_sampling(settings);
  const std::int64_t n = std::clamp<std::int64_t>(n_choices, 0, static_cast<std::int64_t>(logits.size()));
  const std::span<const float> choosable = logits.first(static_cast<std::size_t>(n));
  RowSampling sampling{settings, state_};
  const std::int32_t id = sample_row(choosable, sampling);
  if (id == kNoChoice) refuse(choosable);
  sampling.advance();
  state_ = sampling.state;
  return id;
}

}  // namespace kvlab
