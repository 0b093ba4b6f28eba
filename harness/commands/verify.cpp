// `kvlab verify`: every variant against the float64 reference, a line each.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "harness/commands/commands.h"
#include "harness/interrupt.h"
#include "harness/output_file.h"
#include "harness/progress.h"
#include "harness/prompt.h"
#include "harness/proof.h"
#include "kernels/error.h"
#include "variants/registry.h"

namespace kvlab {

namespace {

constexpr const char* kProofText = "configs/prompts/how-computers-remember.txt";

struct ProofTokens {
  std::vector<std::int32_t> ids;
  std::string origin;
};

/// Real text where the model's tokenizer can spell it, seeded ids otherwise.
ProofTokens proof_tokens(const Checkpoint& checkpoint, std::int64_t n_tokens, std::uint64_t seed) {
  const std::string path = (std::filesystem::path(kvlab_home()) / kProofText).string();
  const bool spells_text = checkpoint.tokenizer && checkpoint.tokenizer->vocab_size() >= 256;
  if (spells_text && std::filesystem::exists(path)) {
    std::vector<std::int32_t> ids = text_ids(*checkpoint.tokenizer, read_text_file("prompt file", path), false);
    if (static_cast<std::int64_t>(ids.size()) >= n_tokens) {
      ids.resize(static_cast<std::size_t>(n_tokens));
      return {ids, fmt::format("text of {}", kProofText)};
    }
  }
  return {seeded_ids(seed, n_tokens, choosable_ids(checkpoint)), "seeded ids"};
}

std::string outcome_line(const Variant& variant, const ProofOutcome& outcome) {
  std::string tokens = "tokens equal";
  if (outcome.mismatches > 0) {
    tokens = fmt::format("{} tokens differ", outcome.mismatches);
  } else if (outcome.ties > 0) {
    tokens = fmt::format("tokens equal but for {} ties of the reference", outcome.ties);
  }
  return fmt::format("{:<6}  {:<44}  worst {:.2e} at position {}, id {}; {}; tolerance {:.2e} ({})\n",
                     outcome.passed() ? "ok" : "FAILED", variant_label(variant), outcome.difference.worst,
                     outcome.difference.row, outcome.difference.id, tokens, outcome.tolerance, outcome.derivation);
}

/// The variants in groups that share packed weights, in the order of first appearance.
std::vector<std::vector<Variant>> by_weights(const std::vector<Variant>& variants) {
  std::vector<std::vector<Variant>> groups;
  for (const Variant& variant : variants) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return Transformer::same_weights(group.front(), variant);
    });
    if (same == groups.end()) {
      groups.push_back({variant});
    } else {
      same->push_back(variant);
    }
  }
  return groups;
}

/// Prints the variant's line; false when it failed.
bool prove_one(Proof& proof, const Variant& variant) {
  try {
    const ProofOutcome outcome = proof.prove(variant);
    write_standard_output(outcome_line(variant, outcome));
    return outcome.passed();
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& error) {
    write_standard_output(fmt::format("{:<6}  {:<44}  {}\n", "FAILED", variant_label(variant), error.what()));
    return false;
  }
}

}  // namespace

int run_verify(const VerifyRequest& request) {
  ModelSession session(request.model.model, request.model.device, request.model.threads, request.model.seed,
                       request.model.gemv);
  if (request.layer >= 0) session.keep_layer(request.layer);
  const ModelConfig& config = session.config();
  const std::int64_t n_tokens = request.prompt_tokens + request.gen_tokens;
  if (n_tokens > config.context_length) {
    throw InputError(fmt::format("verify: prompt and decode steps take {} tokens; the context holds {}", n_tokens,
                                 config.context_length));
  }
  if (const std::int64_t held = request.model.variant.kv_capacity; held > 0 && held < n_tokens) {
    throw InputError(
        fmt::format("verify: prompt and decode steps take {} tokens; --kv-capacity is {}", n_tokens, held));
  }
  resolve_kv_heads(request.model.variant, config.n_heads, config.n_kv_heads);
  const ProofTokens tokens = proof_tokens(session.checkpoint(), n_tokens, request.model.seed);
  write_standard_output(fmt::format("{}: {} + {} tokens ({}), teacher-forced, against the float64 reference\n",
                                    config.name, request.prompt_tokens, request.gen_tokens, tokens.origin));
  Proof proof(session, tokens.ids, request.prompt_tokens);
  std::int64_t n_variants = 0;
  std::int64_t n_failed = 0;
  for (const auto& group : by_weights(every_variant(request.model.variant, config.n_heads, config.n_kv_heads))) {
    for (const Variant& variant : group) {
      stop_if_interrupted();
      ++n_variants;
      if (!prove_one(proof, variant)) ++n_failed;
    }
    session.drop_weights();
  }
  write_standard_output(fmt::format("{} variants, {} failed\n", n_variants, n_failed));
  return n_failed == 0 ? 0 : 1;
}

}  // namespace kvlab
