// Compares cases with the reference variant, whose runs are kept for the cases that share them.
#include "harness/output_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/accounting.h"
#include "harness/check_memory.h"
#include "harness/exact.h"
#include "harness/tolerance.h"

namespace kvlab {

namespace {

/// Recomputing everything is quadratic: the reference stops after the tokens that fit these FLOPs (about a minute on
/// two cores), and the result says how far the check went.
constexpr std::int64_t kReferenceFlops = 20'000'000'000'000;
/// Steps whose reference logits are kept for comparing other storage types.
constexpr std::int64_t kKeptSteps = 32;

/// Rows that a reference takes at a time where the scores of the whole prompt are too large.
constexpr std::int64_t kReferenceChunk = 512;

std::int64_t flops(const WorkCounters& work) { return work.gemm_flops + work.attention_flops; }

std::int64_t affordable_tokens(const ModelConfig& config, const Case& spec) {
  std::int64_t left = kReferenceFlops - flops(prefill_work(config, spec.variant, spec.workload));
  std::int64_t n_tokens = 1;
  while (n_tokens < spec.workload.gen_tokens) {
    left -= flops(decode_step_work(config, spec.variant, spec.workload, n_tokens));
    if (left < 0) break;
    ++n_tokens;
  }
  return n_tokens;
}

}  // namespace

std::int64_t whole_scores_bytes(const Workload& workload, int threads) {
  const std::int64_t keys = needed_capacity(workload);
  const std::int64_t rows = workload.kv_fill == KvFill::random ? workload.prompt_tokens : keys;
  return (Exact(rows) * keys * static_cast<std::int64_t>(sizeof(float)) * threads).value();
}

Variant reference_variant(const Variant& variant, const ModelConfig& config) {
  Variant reference;
  reference.cache = CacheKind::none;
  reference.prefill_attention = AttentionKind::naive;
  reference.decode_attention = AttentionKind::naive;
  reference.weight_dtype = variant.weight_dtype;
  if (resolve_kv_heads(variant, config.n_heads, config.n_kv_heads) < config.n_kv_heads) {
    reference.heads = variant.heads;
    reference.gqa_kv_heads = variant.gqa_kv_heads;
  }
  return reference;
}

Variant reference_variant(const Case& spec, const ModelConfig& config) {
  Variant reference = reference_variant(spec.variant, config);
  if (spec.workload.kv_fill == KvFill::random) reference.cache = CacheKind::contiguous;
  return reference;
}

Case reference_case(const Case& spec, const ModelConfig& config) {
  Case reference = spec;
  reference.variant = reference_variant(spec, config);
  if (whole_scores_bytes(spec.workload, spec.threads) > kMostWholeScoresBytes) {
    reference.variant.cache = CacheKind::contiguous;
    reference.variant.prefill_chunk = kReferenceChunk;
  }
  return reference;
}

const OutputCheck::Reference& OutputCheck::reference(const Case& spec, const WorkloadTokens& tokens) {
  const Case wanted = reference_case(spec, session_.config());
  for (const Entry& entry : references_) {
    if (entry.spec == wanted) return entry.reference;
  }
  references_.push_back({wanted, make_reference(wanted, tokens)});
  return references_.back().reference;
}

OutputCheck::Reference OutputCheck::make_reference(const Case& spec, const WorkloadTokens& tokens) {
  Reference reference;
  reference.spec = spec;
  reference.spec.workload.gen_tokens = affordable_tokens(session_.config(), spec);
  reference.n_kept = std::min(kKeptSteps, reference.spec.workload.gen_tokens);
  const auto n_logits = static_cast<std::size_t>(reference.n_kept * session_.config().vocab_size);
  RoundOptions options;
  options.n_choices = choosable_ids(session_.checkpoint());
  options.after_pass = [&](std::int64_t, const Decoder& decoder) {
    if (reference.logits.size() == n_logits) return;
    const std::span<const float> logits = decoder.logits(0);
    reference.logits.insert(reference.logits.end(), logits.begin(), logits.end());
  };
  Transformer& transformer = session_.transformer(spec.variant);  // what is free is known once its weights are there
  const std::int64_t available = session_.available_memory_bytes();
  if (available > 0 && splits_reference(spec, session_.config(), session_.operations(), available)) {
    reference.split_bytes = run_bytes(spec, session_.config(), session_.operations(), available);
    reference.round = split_round(reference.spec, tokens, options);
  } else {
    reference.round = run_round(transformer, reference.spec, tokens, options);
  }
  for (const float logit : reference.logits) {
    reference.largest_logit = std::max(reference.largest_logit, std::abs(static_cast<double>(logit)));
  }
  return reference;
}

Round OutputCheck::split_round(const Case& spec, const WorkloadTokens& tokens, const RoundOptions& options) {
  Round all;
  for (std::size_t seq = 0; seq < tokens.prompt.size(); ++seq) {
    WorkloadTokens own{{tokens.depth[seq]}, {tokens.prompt[seq]}, tokens.draw};
    own.draw.first_seq += static_cast<std::int64_t>(seq);
    Round one = run_round(session_.transformer(spec.variant), one_sequence(spec), own, options);
    all.tokens.push_back(std::move(one.tokens.front()));
  }
  return all;
}

void OutputCheck::note_reference(CaseResult& result, const Reference& reference) const {
  const Case& spec = result.spec;
  if (reference.spec.variant.prefill_chunk > 0) {
    result.warnings.push_back(
        fmt::format("the reference took the prompt in chunks of {} through a contiguous cache: whole, its scores would "
                    "take {:.1f} GB",
                    kReferenceChunk, static_cast<double>(whole_scores_bytes(spec.workload, spec.threads)) / 1e9));
  }
  if (reference.split_bytes > 0) {
    result.warnings.push_back(fmt::format(
        "the reference took one sequence at a time: together, their KV cache in f32 and workspace would take {:.1f} GB",
        static_cast<double>(reference.split_bytes) / 1e9));
  }
}

Round OutputCheck::check(CaseResult& result, const WorkloadTokens& tokens, RoundOptions options) {
  const Case& spec = result.spec;
  const Reference& expected = reference(spec, tokens);
  const std::int64_t n_checked = expected.spec.workload.gen_tokens;
  note_reference(result, expected);
  const bool is_reference = spec == expected.spec && expected.split_bytes == 0;
  if (is_reference && !options.nan_logits) return expected.round;  // its own run has warmed this path

  options.n_choices = choosable_ids(session_.checkpoint());
  const Round round = run_round(session_.transformer(spec.variant), spec, tokens, options);
  if (spec.variant.weight_dtype == DType::f32 && spec.variant.kv_dtype == DType::f32) {
    compare_tokens(result, round, tokens, expected);
  } else {
    compare_logits(result, tokens, expected);
  }
  if (n_checked < spec.workload.gen_tokens) {
    result.warnings.push_back(fmt::format("output checked for the first {} of {} tokens: recomputing more is too dear",
                                          n_checked, spec.workload.gen_tokens));
  }
  return round;
}

void OutputCheck::compare_tokens(CaseResult& result, const Round& round, const WorkloadTokens& tokens,
                                 const Reference& expected) {
  for (std::size_t seq = 0; seq < expected.round.tokens.size(); ++seq) {
    const std::vector<std::int32_t>& right = expected.round.tokens[seq];
    const auto [miss, other] = std::mismatch(right.begin(), right.end(), round.tokens[seq].begin());
    if (miss == right.end()) continue;
    const auto at = static_cast<std::size_t>(miss - right.begin());
    const double gap = preference(expected, tokens, seq, at, *other);
    const std::string what = fmt::format(
        "sequence {}, token {}: id {} where the reference chose {}; its logits differ by "
        "{:.3g}, rounding explains {:.3g}",
        seq, at, *other, *miss, gap, 2 * tolerance(expected));
    if (!(gap <= 2 * tolerance(expected))) {
      result.status = Status::failed;
      result.reason = what;
      return;
    }
    result.warnings.push_back("a tie of the reference was decided otherwise: " + what);
  }
}

void OutputCheck::compare_logits(CaseResult& result, const WorkloadTokens& tokens, const Reference& expected) {
  Case naive = result.spec;
  naive.variant = expected.spec.variant;
  naive.variant.cache = CacheKind::contiguous;
  naive.variant.kv_dtype = result.spec.variant.kv_dtype;
  auto known = std::find_if(naive_differences_.begin(), naive_differences_.end(),
                            [&](const auto& entry) { return entry.first == naive; });
  if (known == naive_differences_.end()) {
    known = naive_differences_.insert(known, {naive, forced_difference(naive, tokens, expected)});
  }
  const bool rounds = session_.operations().rounds_product_inputs();
  const double naive_limit = rounds ? activation_tolerance(session_.config(), expected.largest_logit)
                                    : storage_tolerance(session_.config(), expected.largest_logit);
  const double bound = std::max(rounds ? naive_limit : tolerance(expected), 2 * known->second);
  const double worst = forced_difference(result.spec, tokens, expected);
  if (!(known->second <= naive_limit)) {
    result.status = Status::failed;
    result.reason = fmt::format(
        "the naive variant with this storage is {:.3g} off the reference's logits; rounding "
        "explains {:.3g}",
        known->second, naive_limit);
  } else if (!(worst <= bound)) {
    result.status = Status::failed;
    result.reason = fmt::format(
        "teacher-forced logits differ from the reference's by {:.3g}; {} {:.3g}", worst,
        rounds ? "bf16 activations explain" : "twice the naive variant's error with this storage is", bound);
  }
}

double OutputCheck::forced_difference(Case spec, const WorkloadTokens& tokens, const Reference& expected) {
  spec.workload.gen_tokens = expected.n_kept;
  const auto vocab = static_cast<std::size_t>(session_.config().vocab_size);
  Difference difference;
  RoundOptions options;
  options.n_choices = choosable_ids(session_.checkpoint());
  options.forced = &expected.round.tokens;
  options.after_pass = [&](std::int64_t pass, const Decoder& decoder) {
    const auto begin = expected.logits.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(pass) * vocab);
    const std::vector<double> row(begin, begin + static_cast<std::ptrdiff_t>(vocab));
    compare_row(decoder.logits(0), row, pass, difference);
  };
  run_round(session_.transformer(spec.variant), spec, tokens, options);
  return difference.worst;
}

double OutputCheck::preference(const Reference& expected, const WorkloadTokens& tokens, std::size_t seq,
                               std::size_t length, std::int32_t id) {
  std::vector<std::int32_t> ids = tokens.depth[seq];
  ids.insert(ids.end(), tokens.prompt[seq].begin(), tokens.prompt[seq].end());
  const std::vector<std::int32_t>& generated = expected.round.tokens[seq];
  ids.insert(ids.end(), generated.begin(), generated.begin() + static_cast<std::ptrdiff_t>(length));
  const Variant& variant = expected.spec.variant;
  const Workload& workload = expected.spec.workload;
  const std::int64_t drawn = workload.kv_fill == KvFill::random ? workload.depth : 0;
  Decoder decoder(session_.transformer(variant), variant, 1, drawn + static_cast<std::int64_t>(ids.size()));
  if (drawn > 0) {
    KvDraw draw = tokens.draw;
    draw.first_seq = static_cast<std::int64_t>(seq);
    decoder.fill(drawn, draw);
  }
  decoder.prefill({&ids, 1});
  const std::span<const float> logits = decoder.logits(0);
  return static_cast<double>(logits[static_cast<std::size_t>(generated[length])]) -
         static_cast<double>(logits[static_cast<std::size_t>(id)]);
}

double OutputCheck::tolerance(const Reference& expected) const {
  const bool pooled = expected.spec.variant.heads != HeadsKind::model;  // a reference is re-headed only by pooling
  return rounding_tolerance(session_.config(), expected.largest_logit, pooled);
}

}  // namespace kvlab
