#include "model/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/error.h"

namespace kvlab {
namespace {

void check_settings(const GenerationSettings& settings) {
  check_sampling(settings.sampling);
  if (settings.max_new_tokens < 0) {
    throw InputError(fmt::format("max-new-tokens {}: must not be negative", settings.max_new_tokens));
  }
}

}  // namespace

std::string_view stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::eos:
      return "eos";
    case StopReason::stop_string:
      return "stop_string";
    case StopReason::max_new_tokens:
      return "max_new_tokens";
    case StopReason::context_full:
      return "context_full";
    case StopReason::interrupted:
      break;
  }
  return "interrupted";
}

Generation::Generation(Decoder& decoder, const Tokenizer* tokenizer, std::vector<std::int32_t> prompt_ids,
                       std::vector<std::int32_t> eos_ids, std::uint64_t seed, GenerationSettings settings)
    : decoder_(decoder),
      tokenizer_(tokenizer),
      prompt_ids_(std::move(prompt_ids)),
      eos_ids_(std::move(eos_ids)),
      sampler_(seed) {
  if (prompt_ids_.empty()) throw InputError("the prompt is empty: give at least one token");
  const auto n = static_cast<std::int64_t>(prompt_ids_.size());
  if (n > decoder.capacity()) {
    throw InputError(fmt::format("the prompt has {} tokens, the context holds {}", n, decoder.capacity()));
  }
  change(std::move(settings));
}

void Generation::change(GenerationSettings settings) {
  check_settings(settings);
  if (!settings.stops.empty() && tokenizer_ == nullptr) {
    throw InputError("stop strings need a tokenizer, and this model has none");
  }
  stream_.set_stops(settings.stops);
  settings_ = std::move(settings);
}

/// Runs the model up to the next choice; false when the generation ends before it.
bool Generation::advance() {
  if (!prefilled_) {
    decoder_.prefill(std::span(&prompt_ids_, 1));
    const std::span<const float> logits = decoder_.logits(0);
    prompt_logits_.assign(logits.begin(), logits.end());
    prefilled_ = true;
  }
  const auto chosen = static_cast<std::int64_t>(tokens_.size());
  if (chosen >= settings_.max_new_tokens) {
    reason_ = StopReason::max_new_tokens;
    return false;
  }
  const auto prompt = static_cast<std::int64_t>(prompt_ids_.size());
  if (decoder_.length(0) == prompt + chosen) return true;  // the newest token's logits are there
  if (decoder_.length(0) >= decoder_.capacity()) {
    reason_ = StopReason::context_full;
    return false;
  }
  decoder_.decode(std::span(&tokens_.back(), 1));
  return true;
}

std::optional<GenerationStep> Generation::step() {
  if (reason_ || !advance()) return std::nullopt;
  const std::int64_t n_choices = tokenizer_ == nullptr ? decoder_.config().vocab_size : tokenizer_->vocab_size();
  const std::int32_t token = sampler_.choose(decoder_.logits(0), n_choices, settings_.sampling);
  if (!settings_.ignore_eos && std::find(eos_ids_.begin(), eos_ids_.end(), token) != eos_ids_.end()) {
    reason_ = StopReason::eos;
    return std::nullopt;
  }
  tokens_.push_back(token);
  GenerationStep step{token, ""};
  if (tokenizer_ != nullptr && !tokenizer_->is_special(token)) step.text = stream_.push(tokenizer_->token_bytes(token));
  if (stream_.stopped()) reason_ = StopReason::stop_string;
  return step;
}

void Generation::interrupt() {
  if (!reason_) reason_ = StopReason::interrupted;
}

std::string Generation::finish() { return stream_.finish(); }

}  // namespace kvlab
