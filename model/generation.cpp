#include "model/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "model/profiler_range.h"

namespace kvlab {
namespace {

void check_settings(const GenerationSettings& settings) {
  check_sampling(settings.sampling);
  if (settings.max_new_tokens < 0) {
    throw InputError(fmt::format("max-new-tokens {}: must not be negative", settings.max_new_tokens));
  }
}

bool on_device(const Decoder& decoder) { return decoder.variant().sampling == SamplingKind::device; }

std::int64_t n_choosable(const Decoder& decoder, const Tokenizer* tokenizer) {
  return tokenizer == nullptr ? decoder.config().vocab_size : tokenizer->vocab_size();
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
  decoder.set_choosable(n_choosable(decoder, tokenizer));
  if (on_device(decoder)) decoder.seed_sampling(0, seed);
}

void Generation::change(GenerationSettings settings) {
  check_settings(settings);
  if (!settings.stops.empty() && tokenizer_ == nullptr) {
    throw InputError("stop strings need a tokenizer, and this model has none");
  }
  if (on_device(decoder_)) {
    if (settings.sampling != settings_.sampling) take_back();
    decoder_.set_sampling(0, settings.sampling);
  }
  stream_.set_stops(settings.stops);
  settings_ = std::move(settings);
}

/// Runs the model up to the next choice; false when the generation ends before it.
bool Generation::advance() {
  if (!prefilled_) {
    decoder_.prefill(std::span(&prompt_ids_, 1));
    if (settings_.keep_prompt_logits) {
      const std::span<const float> logits = decoder_.logits(0);
      prompt_logits_.assign(logits.begin(), logits.end());
    }
    prefilled_ = true;
  }
  const auto chosen = static_cast<std::int64_t>(tokens_.size());
  if (chosen >= settings_.max_new_tokens) {
    end(StopReason::max_new_tokens);
    return false;
  }
  const auto prompt = static_cast<std::int64_t>(prompt_ids_.size());
  if (decoder_.length(0) == prompt + chosen) return true;  // the newest token's logits are there
  if (decoder_.length(0) >= decoder_.capacity()) {
    end(StopReason::context_full);
    return false;
  }
  if (on_device(decoder_)) {
    decoder_.decode_chosen();
  } else {
    decoder_.decode(std::span(&tokens_.back(), 1));
  }
  return true;
}

/// Whether the token to be chosen now will be followed by another, as far as can be told before it is known.
bool Generation::may_run_ahead() const {
  return decoder_.variant().cache != CacheKind::none && decoder_.length(0) < decoder_.capacity() &&
         static_cast<std::int64_t>(tokens_.size()) + 1 < settings_.max_new_tokens;
}

/// A step that ran ahead was for a token that nobody wants now, or chose by settings that hold no more.
void Generation::take_back() {
  if (ahead_) decoder_.drop_newest();
  ahead_ = false;
}

void Generation::end(StopReason reason) {
  reason_ = reason;
  take_back();
}

std::int32_t Generation::choose() {
  if (on_device(decoder_)) {
    ahead_ = may_run_ahead();
    if (ahead_) decoder_.decode_chosen();  // before anybody knows the choice: the device need not wait for the host
    const ProfilerRange range("choose token");
    return decoder_.take_choices().front();
  }
  const ProfilerRange range("choose token");
  return sampler_.choose(decoder_.logits(0), n_choosable(decoder_, tokenizer_), settings_.sampling);
}

std::optional<GenerationStep> Generation::step() {
  if (reason_ || !advance()) return std::nullopt;
  const std::int32_t token = choose();
  if (!settings_.ignore_eos && std::find(eos_ids_.begin(), eos_ids_.end(), token) != eos_ids_.end()) {
    end(StopReason::eos);
    return std::nullopt;
  }
  tokens_.push_back(token);
  GenerationStep step{token, ""};
  if (tokenizer_ != nullptr && !tokenizer_->is_special(token)) step.text = stream_.push(tokenizer_->token_bytes(token));
  if (stream_.stopped()) end(StopReason::stop_string);
  return step;
}

void Generation::interrupt() {
  if (!reason_) end(StopReason::interrupted);
}

std::string Generation::finish() { return stream_.finish(); }

}  // namespace kvlab
