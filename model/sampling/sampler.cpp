// Sampling with arithmetic and a generator of our own (kernels/sampling.h), so that a seed means the same ids on every
// platform and on a device.
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
  std::uint64_t weight;  // in units of 1 / kWholeWeight
};

/// Higher logits first, of equal ones the lower id.
bool goes_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// The ids that can be chosen, in order of id. -inf means never.
std::vector<Candidate> possible(std::span<const float> logits) {
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (std::isnan(logit) || logit == HUGE_VALF) {
      throw std::runtime_error(fmt::format("the logit of id {} is {}: the forward pass went wrong", i, logit));
    }
    if (std::isfinite(logit)) candidates.push_back({static_cast<std::int32_t>(i), logit, 0});
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

std::uint64_t weigh(std::vector<Candidate>& candidates, double temperature) {
  const float highest = std::min_element(candidates.begin(), candidates.end(), goes_before)->logit;
  std::uint64_t total = 0;
  for (Candidate& candidate : candidates) {
    candidate.weight = sampling_weight(candidate.logit, highest, temperature);
    total += candidate.weight;
  }
  return total;
}

/// Keeps the smallest set that reaches top_p of the total; returns the weight kept.
std::uint64_t keep_top_p(std::vector<Candidate>& candidates, std::uint64_t total, double top_p) {
  if (top_p >= 1.0) return total;
  std::sort(candidates.begin(), candidates.end(), goes_before);
  const std::uint64_t wanted = wanted_weight(top_p, total);
  std::uint64_t kept = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    kept += candidates[i].weight;
    if (kept < wanted) continue;
    candidates.resize(i + 1);
    break;
  }
  return kept;
}

/// The candidate at which the weights, added in order of id, pass a point drawn below their total.
std::int32_t draw(std::vector<Candidate>& candidates, std::uint64_t total, std::uint64_t& state) {
  const auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
  if (!std::is_sorted(candidates.begin(), candidates.end(), by_id))
    std::sort(candidates.begin(), candidates.end(), by_id);
  std::uint64_t left = drawn_below(total, next_random(state));
  for (const Candidate& candidate : candidates) {
    if (left < candidate.weight) return candidate.id;
    left -= candidate.weight;
  }
  throw std::logic_error("sampling: the weights do not add up to their total");
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
  const std::uint64_t total = weigh(candidates, settings.temperature);
  const std::uint64_t kept = keep_top_p(candidates, total, settings.top_p);
  return draw(candidates, kept, state_);
}

}  // namespace kvlab
