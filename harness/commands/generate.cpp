// `kvlab generate`: streams text (or ids) token by token, says why it stopped, and how fast it was.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "harness/commands/commands.h"
#include "harness/commands/setting_changes.h"
#include "harness/interrupt.h"
#include "harness/model_session.h"
#include "harness/output_file.h"
#include "harness/progress.h"
#include "harness/prompt.h"
#include "kernels/error.h"

namespace kvlab {

namespace {

std::vector<std::int32_t> requested_prompt(const GenerateRequest& request, const Checkpoint& checkpoint) {
  if (request.prompt.has_value() == request.prompt_ids.has_value()) {
    throw InputError("generate: give either --prompt or --prompt-ids");
  }
  if (request.prompt_ids) {
    if (request.chat) throw InputError("generate: --chat wraps a --prompt; it cannot be used with --prompt-ids");
    check_ids("--prompt-ids", *request.prompt_ids, checkpoint.config.vocab_size);
    return *request.prompt_ids;
  }
  if (!checkpoint.tokenizer) {
    throw InputError(fmt::format("--prompt: {} has no tokenizer; use --prompt-ids", request.model.model));
  }
  std::vector<std::int32_t> ids = request.chat
                                      ? chat_ids(*checkpoint.tokenizer, *request.prompt, request.parse_special)
                                      : text_ids(*checkpoint.tokenizer, *request.prompt, request.parse_special);
  if (ids.empty())
    throw InputError("--prompt: the text is empty and the model adds no BOS, so there is nothing to continue");
  check_ids("--prompt", ids, checkpoint.config.vocab_size);
  return ids;
}

std::vector<std::int32_t> ending_ids(const Checkpoint& checkpoint, bool chat) {
  std::vector<std::int32_t> ids = checkpoint.config.eos_ids;
  if (checkpoint.tokenizer) {
    for (const std::int32_t id : checkpoint.tokenizer->eos_ids()) ids.push_back(id);
    if (const auto turn_end = checkpoint.tokenizer->find_piece("<|im_end|>"); chat && turn_end) {
      ids.push_back(*turn_end);
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

/// Shows tokens as they come: text where there is a tokenizer, ids otherwise; nothing when the JSON owns the output.
class Stream {
 public:
  Stream(bool shown, bool as_text) : shown_(shown), as_text_(as_text) {}

  void step(const GenerationStep& step) {
    if (as_text_) return text(step.text);
    text(fmt::format("{}{}", first_ ? "" : " ", step.token));
    first_ = false;
  }
  void text(std::string_view piece) {
    if (shown_ && !piece.empty()) write_standard_output(piece);
  }

 private:
  bool shown_;
  bool as_text_;
  bool first_ = true;
};

struct Timing {
  double first_token_s = 0;
  double total_s = 0;
};

Timing run_steps(Generation& generation, std::vector<SettingChange> changes, Stream& stream) {
  // Each list change builds on the ones before it, so equal steps keep the order of the command line.
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  Timing timing;
  const Stopwatch watch;
  auto change = changes.begin();
  for (std::int64_t i = 0;; ++i) {
    for (; change != changes.end() && change->step == i; ++change) {
      generation.change(changed_settings(generation.settings(), *change));
    }
    if (interrupted()) generation.interrupt();
    const std::optional<GenerationStep> step = generation.step();
    if (!step) break;
    if (i == 0) timing.first_token_s = watch.elapsed_s();
    stream.step(*step);
  }
  stream.text(generation.finish());
  timing.total_s = watch.elapsed_s();
  return timing;
}

nlohmann::ordered_json logits_json(const std::vector<float>& logits) {
  // Each float as the shortest decimal that reads back as the same float.
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const float logit : logits) array.push_back(std::stod(fmt::format("{}", logit)));
  return array;
}

void remark(const Generation& generation, const Timing& timing, bool shown) {
  const auto n_tokens = static_cast<std::int64_t>(generation.tokens().size());
  std::string speed;
  if (n_tokens > 1 && timing.total_s > timing.first_token_s) {
    const double rate = static_cast<double>(n_tokens - 1) / (timing.total_s - timing.first_token_s);
    speed = fmt::format(", first after {:.3f} s, then {:.1f} tokens/s", timing.first_token_s, rate);
  }
  fmt::print(stderr, "{}[{}: {} tokens after a prompt of {}{}]\n", shown ? "\n" : "",
             stop_reason_name(*generation.stop_reason()), n_tokens, generation.prompt_ids().size(), speed);
}

/// The prompt's logits exist once a step has run; a generation of no tokens runs the prefill for them alone.
std::vector<float> prompt_logits(const Generation& generation, Decoder& decoder) {
  if (!generation.prompt_logits().empty()) return generation.prompt_logits();
  if (decoder.length(0) == 0) decoder.prefill({&generation.prompt_ids(), 1});
  const std::span<const float> logits = decoder.logits(0);
  return {logits.begin(), logits.end()};
}

}  // namespace

int run_generate(const GenerateRequest& request) {
  check_changes(request.settings, request.changes);
  OutputFile json("--json", request.json);
  OutputFile logits("--logits-out", request.logits_out);
  if (json.is_standard_output() && logits.is_standard_output()) {
    throw InputError("--logits-out and --json cannot both be standard output");
  }
  ModelSession session(request.model.model, request.model.device, request.model.threads, request.model.seed,
                       request.model.gemv);
  const Checkpoint& checkpoint = session.checkpoint();
  std::vector<std::int32_t> prompt = requested_prompt(request, checkpoint);
  if (!checkpoint.tokenizer && (!request.settings.stops.empty() || changes_stops(request.changes))) {
    throw InputError(fmt::format("--stop: {} has no tokenizer, so there is no text to stop at", request.model.model));
  }
  const auto prompt_tokens = static_cast<std::int64_t>(prompt.size());
  const std::int64_t context = session.config().context_length;
  if (prompt_tokens > context) {
    throw InputError(fmt::format("the prompt has {} tokens; the context holds {}", prompt_tokens, context));
  }
  const std::int64_t wanted = largest_token_limit(request.settings, request.changes);
  const std::int64_t capacity = std::min(context, prompt_tokens + wanted);
  Decoder decoder(session.transformer(request.model.variant), request.model.variant, 1,
                  request.model.variant.kv_capacity > 0 ? request.model.variant.kv_capacity : capacity,
                  request.model.seed);
  GenerationSettings settings = request.settings;
  settings.keep_prompt_logits = !request.logits_out.empty();
  Generation generation(decoder, checkpoint.tokenizer.get(), std::move(prompt), ending_ids(checkpoint, request.chat),
                        request.model.seed, settings);

  const bool shown = !json.is_standard_output() && !logits.is_standard_output();
  Stream stream(shown, checkpoint.tokenizer != nullptr);
  const Timing timing = run_steps(generation, request.changes, stream);
  remark(generation, timing, shown);
  if (logits.wanted() && !interrupted()) logits.write_json(logits_json(prompt_logits(generation, decoder)));
  nlohmann::ordered_json result;
  result["prompt_ids"] = generation.prompt_ids();
  result["tokens"] = generation.tokens();
  result["text"] = checkpoint.tokenizer ? nlohmann::ordered_json(generation.text()) : nlohmann::ordered_json();
  result["stop_reason"] = stop_reason_name(*generation.stop_reason());
  json.write_json(result);
  return generation.stop_reason() == StopReason::interrupted ? kInterruptedExitCode : 0;
}

}  // namespace kvlab
