// Sampling in float64 with a generator of our own, so that a seed means the same ids on every platform.
#include "model/sampling/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "kernels/error.h"
#include "kernels/random.h"

namespace kvlab {
namespace {

struct Candidate {
  std::int32_t id;
  float logit;
  double weight;  // probability, not normalised
};

/// Higher logits first, of equal ones the lower id.
bool goes_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// In [0, 1), a multiple of 2^-53.
double next_unit(std::uint64_t& state) { return static_cast<double>(next_random(state) >> 11) * 0x1p-53; }

/// The ids that can be chosen, in order of id. -inf means never.
std::vector<Candidate> possible(std::span<const float> logits) {
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (std::isnan(logit) || logit == HUGE_VALF) {
      throw std::runtime_error(fmt::format("the logit of id {} is {}: the forward pass went wrong", i, logit));
    }
    if (std::isfinite(logit)) candidates.push_back({static_cast<std::int32_t>(i), logit, 0.0});
  }
  if (candidates.empty()) throw std::runtime_error("no logit is finite: there is no token to choose");
  return candidates;
}

void keep_top_k(std::vector<Candidate>& candidates, std::int64_t top_k) {
  if (top_k == 0 || top_k >= static_cast<std::int64_t>(candidates.size())) return;
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(top_k);
  std::nth_element(candidates.begin(), end - 1, candidates.end(), goes_before);
  candidates.erase(end, candidates.end());
}

double weigh(std::vector<Candidate>& candidates, double temperature) {
  const float highest = std::min_element(candidates.begin(), candidates.end(), goes_before)->logit;
  double total = 0.0;
  for (Candidate& candidate : candidates) {
    candidate.weight = std::exp((static_cast<double>(candidate.logit) - highest) / temperature);
    total += candidate.weight;
  }
  return total;
}

/// Keeps the smallest set that reaches top_p of the total; returns the weight kept.
double keep_top_p(std::vector<Candidate>& candidates, double total, double top_p) {
  if (top_p >= 1.0) return total;
  // Equal shares that add up to top_p on paper must reach it in float64 too.
  constexpr double kRoundingAllowance = 1.0 - 1e-12;
  std::sort(candidates.begin(), candidates.end(), goes_before);
  const double wanted = top_p * total * kRoundingAllowance;
  double kept = 0.0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    kept += candidates[i].weight;
    if (kept < wanted) continue;
    candidates.resize(i + 1);
    break;
  }
  return kept;
}

std::int32_t draw(const std::vector<Candidate>& candidates, double total, std::uint64_t& state) {
  double left = next_unit(state) * total;
  std::int32_t last = candidates.front().id;
  for (const Candidate& candidate : candidates) {
    if (candidate.weight == 0.0) continue;
    last = candidate.id;
    if (left < candidate.weight) break;
    left -= candidate.weight;
  }
  return last;
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
  std::vector<Candidate> candidates = possible(logits.first(static_cast<std::size_t>(n)));
  if (settings.temperature == 0.0) return std::min_element(candidates.begin(), candidates.end(), goes_before)->id;
  keep_top_k(candidates, settings.top_k);
  const double total = weigh(candidates, settings.temperature);
  const double kept = keep_top_p(candidates, total, settings.top_p);
  return draw(candidates, kept, state_);
}

}  // namespace kvlab
