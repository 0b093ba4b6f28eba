// `kvlab score`: mean negative log likelihood of a text over positions 2 ... n, and its perplexity.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/commands/commands.h"
#include "harness/interrupt.h"
#include "harness/model_session.h"
#include "harness/output_file.h"
#include "harness/progress.h"
#include "harness/prompt.h"
#include "kernels/error.h"

namespace kvlab {

namespace {

/// Rows whose logits are held at once when the cache lets the text come in parts.
constexpr std::int64_t kRowsAtOnce = 256;

std::vector<std::int32_t> requested_ids(const ScoreRequest& request, const Checkpoint& checkpoint) {
  if (request.text_file.empty() != request.prompt_ids.has_value()) {
    throw InputError("score: give either --text or --prompt-ids");
  }
  std::vector<std::int32_t> ids;
  if (request.prompt_ids) {
    ids = *request.prompt_ids;
  } else {
    if (!checkpoint.tokenizer) {
      throw InputError(fmt::format("--text: {} has no tokenizer; use --prompt-ids", request.model.model));
    }
    ids = text_ids(*checkpoint.tokenizer, read_text_file("--text", request.text_file), false);
  }
  check_ids(request.prompt_ids ? "--prompt-ids" : "--text", ids, checkpoint.config.vocab_size);
  const auto n_tokens = static_cast<std::int64_t>(ids.size());
  if (n_tokens < 2) {
    throw InputError(fmt::format("score: a likelihood needs at least 2 tokens; the text has {}", n_tokens));
  }
  if (n_tokens > checkpoint.config.context_length) {
    throw InputError(
        fmt::format("score: the text has {} tokens; the context holds {}", n_tokens, checkpoint.config.context_length));
  }
  return ids;
}

/// -log softmax(logits)[id] in float64.
double negative_log_likelihood(std::span<const float> logits, std::int32_t id) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(id)]);
}

/// Sum over positions 2 ... n. Without a cache the text goes through in one pass, since parts would be recomputed.
double total_nll(Decoder& decoder, const std::vector<std::int32_t>& ids) {
  const auto n_tokens = static_cast<std::int64_t>(ids.size());
  const bool in_parts = decoder.variant().cache != CacheKind::none;
  const std::int64_t chunk = decoder.variant().prefill_chunk;
  const std::int64_t part = !in_parts ? n_tokens : chunk > 0 ? std::min(chunk, kRowsAtOnce) : kRowsAtOnce;
  const auto vocab = static_cast<std::size_t>(decoder.config().vocab_size);
  Progress progress;
  double sum = 0;
  for (std::int64_t begin = 0; begin < n_tokens; begin += part) {
    stop_if_interrupted();
    const std::int64_t end = std::min(n_tokens, begin + part);
    const std::vector<std::int32_t> tokens(ids.begin() + begin, ids.begin() + end);
    decoder.prefill({&tokens, 1});
    const std::span<const float> logits = decoder.all_logits(0);  // [end - begin, vocab_size]
    for (std::int64_t pos = begin; pos < std::min(end, n_tokens - 1); ++pos) {
      const std::span<const float> row = logits.subspan(static_cast<std::size_t>(pos - begin) * vocab, vocab);
      sum += negative_log_likelihood(row, ids[static_cast<std::size_t>(pos + 1)]);
    }
    progress.tick(fmt::format("scored {} of {} tokens", end, n_tokens));
  }
  return sum;
}

}  // namespace

int run_score(const ScoreRequest& request) {
  OutputFile json("--json", request.json);
  ModelSession session(request.model.model, request.model.device, request.model.threads, request.model.seed,
                       request.model.gemv);
  const std::vector<std::int32_t> ids = requested_ids(request, session.checkpoint());
  Variant variant = request.model.variant;
  variant.logits = LogitsKind::all;
  if (variant.cache == CacheKind::none) variant.prefill_chunk = 0;
  const auto n_tokens = static_cast<std::int64_t>(ids.size());
  const std::int64_t capacity = variant.kv_capacity > 0 ? variant.kv_capacity : n_tokens;
  Decoder decoder(session.transformer(variant), variant, 1, capacity, request.model.seed);

  const double mean_nll = total_nll(decoder, ids) / static_cast<double>(n_tokens - 1);
  const double perplexity = std::exp(mean_nll);
  if (!std::isfinite(mean_nll)) throw std::runtime_error("score: the logits hold a NaN or an infinity");
  if (json.is_standard_output()) {
    fmt::print(stderr, "mean negative log likelihood {:.6f}, perplexity {:.4f}\n", mean_nll, perplexity);
  } else {
    write_standard_output(
        fmt::format("tokens                        {}\nmean negative log likelihood  {:.9f}\n"
                    "perplexity                    {:.6f}\n",
                    n_tokens, mean_nll, perplexity));
  }
  nlohmann::ordered_json result;
  result["n_tokens"] = n_tokens;
  result["mean_nll"] = mean_nll;
  result["perplexity"] = perplexity;
  json.write_json(result);
  return 0;
}

}  // namespace kvlab
