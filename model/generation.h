// Text from a decoder, one step at a time; settings may change between steps without touching the cache (SPEC S7-S9).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/decoder.h"
#include "model/sampling/sampler.h"
#include "model/sampling/text_stream.h"
#include "model/tokenizer/tokenizer.h"

namespace kvlab {

enum class StopReason { eos, stop_string, max_new_tokens, context_full, interrupted };
std::string_view stop_reason_name(StopReason reason);

struct GenerationSettings {
  SamplingSettings sampling;
  std::int64_t max_new_tokens = 128;
  std::vector<std::string> stops;
  bool ignore_eos = false;
  bool keep_prompt_logits = true;  // sampling=device leaves them where they are otherwise
};

struct GenerationStep {
  std::int32_t token;
  std::string text;  // what may be shown now: whole characters
};

class Generation {
 public:
  /// One sequence (number 0 of `decoder`). `tokenizer` may be null (no text, no stop strings). `eos_ids` end it.
  /// Throws InputError for an empty prompt, or one longer than the context, with both numbers.
  Generation(Decoder& decoder, const Tokenizer* tokenizer, std::vector<std::int32_t> prompt_ids,
             std::vector<std::int32_t> eos_ids, std::uint64_t seed, GenerationSettings settings);

  const GenerationSettings& settings() const { return settings_; }
  /// Takes effect from the next step on. Throws InputError and changes nothing when a value is wrong.
  void change(GenerationSettings settings);

  /// The next token, or nothing when the generation has ended. The first call runs the prefill.
  std::optional<GenerationStep> step();
  /// Ends it from outside (Ctrl-C).
  void interrupt();
  /// Text held back until the end (call once, after the last step); "" when nothing was.
  std::string finish();

  std::optional<StopReason> stop_reason() const { return reason_; }
  /// Without the EOS id.
  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  const std::vector<std::int32_t>& prompt_ids() const { return prompt_ids_; }
  const std::string& text() const { return stream_.text(); }
  /// The prompt's last-row logits, after the first step, if they are kept.
  const std::vector<float>& prompt_logits() const { return prompt_logits_; }

 private:
  bool advance();
  std::int32_t choose();
  bool may_run_ahead() const;
  void take_back();
  void end(StopReason reason);

  Decoder& decoder_;
  const Tokenizer* tokenizer_;
  std::vector<std::int32_t> prompt_ids_;
  std::vector<std::int32_t> eos_ids_;
  Sampler sampler_;
  GenerationSettings settings_;
  TextStream stream_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> prompt_logits_;
  std::optional<StopReason> reason_;
  bool prefilled_ = false;
  bool ahead_ = false;  // the device is at the step after the newest choice
};

}  // namespace kvlab
