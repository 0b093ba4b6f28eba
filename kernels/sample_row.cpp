// The choice of the host, which the device repeats in its own way (kernels/cuda/sample.cuh).
#include "kernels/sample_row.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

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

/// The ids that can be chosen, in order of id: -inf means never. None when a logit is NaN or +inf.
std::vector<Candidate> possible(std::span<const float> logits) {
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == HUGE_VALF) return {};
    if (std::isfinite(logits[i])) candidates.push_back({static_cast<std::int32_t>(i), logits[i], 0});
  }
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
std::int32_t drawn_id(std::vector<Candidate>& candidates, std::uint64_t total, std::uint64_t draw) {
  const auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
  if (!std::is_sorted(candidates.begin(), candidates.end(), by_id))
    std::sort(candidates.begin(), candidates.end(), by_id);
  std::uint64_t left = drawn_below(total, draw);
  for (const Candidate& candidate : candidates) {
    if (left < candidate.weight) return candidate.id;
    left -= candidate.weight;
  }
  throw std::logic_error("sampling: the weights do not add up to their total");
}

}  // namespace

std::int32_t sample_row(std::span<const float> logits, const RowSampling& sampling) {
  const SamplingSettings& settings = sampling.settings;
  std::vector<Candidate> candidates = possible(logits);
  if (candidates.empty()) return kNoChoice;
  if (settings.temperature == 0.0) return std::min_element(candidates.begin(), candidates.end(), goes_before)->id;
  keep_top_k(candidates, settings.top_k);
  const std::uint64_t total = weigh(candidates, settings.temperature);
  const std::uint64_t kept = keep_top_p(candidates, total, settings.top_p);
  return drawn_id(candidates, kept, scattered(sampling.state));
}

}  // namespace kvlab
