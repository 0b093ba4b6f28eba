// Compares variants with the float64 reference, position by position.
#include "harness/proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/interrupt.h"
#include "harness/progress.h"
#include "harness/prompt.h"
#include "harness/rounding_points.h"
#include "model/decoder.h"
#include "model/reference_forward.h"

namespace kvlab {

namespace {

/// Noisy references: their worst is that of some 10^4 logits each, so that few are enough.
constexpr std::uint64_t kNoisyReferences = 2;

bool rounds_kv(const Variant& variant) { return variant.cache != CacheKind::none && variant.kv_dtype != DType::f32; }

/// The naive variant with the same storage and the same packed weights.
Variant naive_twin(const Variant& variant) {
  Variant naive = variant;
  naive.cache = CacheKind::contiguous;
  naive.prefill_attention = AttentionKind::naive;
  naive.decode_attention = AttentionKind::naive;
  naive.prefill_chunk = 0;
  return naive;
}

}  // namespace

ProofOutcome Proof::prove(const Variant& variant) {
  const Reference& expected = reference(variant);
  ProofOutcome outcome;
  set_tolerance(variant, expected, outcome);
  compare(variant, expected, outcome);
  return outcome;
}

const Proof::Reference& Proof::reference(const Variant& variant) {
  const ModelConfig& config = session_.config();
  const std::int64_t kv_heads = resolve_kv_heads(variant, config.n_heads, config.n_kv_heads);
  const std::int64_t pooled = kv_heads < config.n_kv_heads ? kv_heads : 0;
  const auto n_ids = static_cast<std::int64_t>(ids_.size());
  const ReferenceRounding rounding =
      rounding_points(session_.operations(), session_.transformer(variant).config(), variant, n_ids, prompt_tokens_);
  for (const auto& known : references_) {
    if (known->weight_dtype == variant.weight_dtype && known->pooled_kv_heads == pooled &&
        known->rounding == rounding) {
      return *known;
    }
  }
  Progress progress;
  const auto show = [&](std::int64_t done, std::int64_t total) {
    stop_if_interrupted();
    progress.tick(fmt::format("float64 reference{}: {} of {}",
                              pooled > 0 ? fmt::format(" with {} pooled KV heads", pooled) : "", done, total));
  };
  std::shared_ptr<const WeightSource> weights = session_.checkpoint().weights;
  if (pooled > 0) weights = rehead(weights, pooled);
  auto made = std::make_unique<Reference>();
  made->weight_dtype = variant.weight_dtype;
  made->pooled_kv_heads = pooled;
  made->rounding = rounding;
  made->logits = reference_logits(*weights, ids_, n_ids, variant.weight_dtype, show, rounding);
  for (const double logit : made->logits) made->largest_logit = std::max(made->largest_logit, std::abs(logit));
  if (made->rounds()) {
    measure_noise(*weights, *made);
  } else {
    made->plain_error = plain_error(variant, *made);
  }
  references_.push_back(std::move(made));
  return *references_.back();
}

/// How far f32 arithmetic may carry the logits, since it decides where values near a midpoint round to.
void Proof::measure_noise(const WeightSource& weights, Reference& made) {
  for (std::uint64_t seed = 1; seed <= kNoisyReferences; ++seed) {
    const std::vector<double> logits = reference_logits(
        weights, ids_, static_cast<std::int64_t>(ids_.size()), made.weight_dtype,
        [](std::int64_t, std::int64_t) { stop_if_interrupted(); }, made.rounding, seed);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      made.noise = std::max(made.noise, std::abs(logits[i] - made.logits[i]));
    }
  }
}

/// What f32 itself costs on this model and these ids: the error of the plainest pass, every row of it.
double Proof::plain_error(const Variant& variant, const Reference& expected) {
  Variant plain = variant;
  plain.cache = CacheKind::none;
  plain.prefill_attention = AttentionKind::naive;
  plain.logits = LogitsKind::all;
  plain.kv_capacity = 0;
  const auto n_ids = static_cast<std::int64_t>(ids_.size());
  Decoder decoder(session_.transformer(plain), plain, 1, n_ids, session_.seed());
  decoder.prefill({&ids_, 1});
  const std::span<const float> rows = decoder.all_logits(0);
  Difference difference;
  compare_row(rows, expected.logits, 0, difference);
  return difference.worst;
}

void Proof::set_tolerance(const Variant& variant, const Reference& expected, ProofOutcome& outcome) {
  if (expected.rounds()) {
    outcome.tolerance = std::max(kSmallestTolerance, 2 * expected.noise);
    outcome.derivation =
        fmt::format("the reference rounds where the backend does; f32 noise there, twice {:.2g}", expected.noise);
    return;
  }
  const bool pooled = expected.pooled_kv_heads > 0;
  const double walk = rounding_tolerance(session_.config(), expected.largest_logit, pooled);
  const double twice_plain = std::min(2 * expected.plain_error, project_line(expected.largest_logit));
  const double rounding = std::max(walk, twice_plain);
  outcome.tolerance = rounding;
  outcome.derivation = twice_plain > walk
                           ? fmt::format("twice a plain f32 pass's {:.2g}", expected.plain_error)
                           : fmt::format("f32 rounding{}, logits up to {:.3g}",
                                         pooled ? " amplified by pooled heads" : "", expected.largest_logit);
  if (!rounds_kv(variant)) return;
  const double storage = storage_tolerance(session_.config(), expected.largest_logit);
  const Variant naive = naive_twin(variant);
  if (variant == naive) {
    outcome.tolerance = storage;
    outcome.derivation =
        fmt::format("{} storage, logits up to {:.3g}", dtype_name(variant.kv_dtype), expected.largest_logit);
    return;
  }
  auto known = std::find_if(naive_errors_.begin(), naive_errors_.end(),
                            [&](const NaiveError& error) { return error.variant == naive; });
  if (known == naive_errors_.end()) {
    ProofOutcome of_naive;
    of_naive.tolerance = storage;
    compare(naive, expected, of_naive);
    known = naive_errors_.insert(known, {naive, of_naive.difference.worst});
  }
  // A naive variant beyond what its storage explains proves nothing for the others.
  outcome.tolerance = std::max(rounding, 2 * std::min(known->worst, storage));
  outcome.derivation = fmt::format("twice naive {}'s {:.2g}", dtype_name(variant.kv_dtype), known->worst);
}

void Proof::compare(const Variant& variant, const Reference& expected, ProofOutcome& outcome) {
  const auto n_ids = static_cast<std::int64_t>(ids_.size());
  const std::int64_t capacity = variant.kv_capacity > 0 ? variant.kv_capacity : n_ids;
  Decoder decoder(session_.transformer(variant), variant, 1, capacity, session_.seed());
  const std::vector<std::int32_t> prompt(ids_.begin(), ids_.begin() + prompt_tokens_);
  decoder.prefill({&prompt, 1});
  const auto vocab = static_cast<std::size_t>(session_.config().vocab_size);
  if (variant.logits == LogitsKind::all) {
    const std::span<const float> rows = decoder.all_logits(0);  // [rows of the last pass, vocab_size]
    const auto n_rows = static_cast<std::int64_t>(rows.size() / vocab);
    for (std::int64_t row = 0; row < n_rows; ++row) {
      compare_position(rows.subspan(static_cast<std::size_t>(row) * vocab, vocab), prompt_tokens_ - n_rows + row,
                       expected, outcome);
    }
  } else {
    compare_position(decoder.logits(0), prompt_tokens_ - 1, expected, outcome);
  }
  for (std::int64_t position = prompt_tokens_; position < n_ids; ++position) {
    stop_if_interrupted();
    decoder.decode({&ids_[static_cast<std::size_t>(position)], 1});
    compare_position(decoder.logits(0), position, expected, outcome);
  }
}

void Proof::compare_position(std::span<const float> logits, std::int64_t position, const Reference& expected,
                             ProofOutcome& outcome) const {
  const auto vocab = static_cast<std::size_t>(session_.config().vocab_size);
  const std::span<const double> row(expected.logits.data() + static_cast<std::size_t>(position) * vocab, vocab);
  compare_row(logits, row, position, outcome.difference);
  const std::int64_t n_choices = choosable_ids(session_.checkpoint());
  const std::int64_t right = greedy_id(row, n_choices);
  const std::int64_t chosen = greedy_id(logits, n_choices);
  if (chosen == right) return;
  const double gap = row[static_cast<std::size_t>(right)] - row[static_cast<std::size_t>(chosen)];
  ++(gap <= 2 * outcome.tolerance ? outcome.ties : outcome.mismatches);
}

}  // namespace kvlab
