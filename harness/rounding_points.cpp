#include "harness/rounding_points.h"

#include <algorithm>

namespace kvlab {
namespace {

class RoundingPoints {
 public:
  RoundingPoints(const Operations& ops, const ModelConfig& config, const Variant& variant, std::int64_t n_tokens)
      : ops_(ops), config_(config), variant_(variant) {
    found_.attention.resize(static_cast<std::size_t>(n_tokens));
    found_.last_attention.resize(static_cast<std::size_t>(n_tokens));
  }

  void add_prefill(std::int64_t prompt_tokens) {
    const std::int64_t chunk = variant_.prefill_chunk > 0 ? variant_.prefill_chunk : prompt_tokens;
    for (std::int64_t begin = 0; begin < prompt_tokens; begin += chunk) {
      const std::int64_t end = std::min(prompt_tokens, begin + chunk);
      add_pass(variant_.prefill_attention, begin, end, prunes_last_layer(variant_));
    }
  }
  void add_decode_step(std::int64_t position) { add_pass(variant_.decode_attention, position, position + 1, false); }

  const ReferenceRounding& found() const { return found_; }

 private:
  /// Rows [begin, end); a pruned last layer has the newest alone.
  void add_pass(AttentionKind kind, std::int64_t begin, std::int64_t end, bool prunes) {
    const bool all_rows = rounds(kind, end - begin, end);
    const bool last_rows = prunes ? rounds(kind, 1, end) : all_rows;
    for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row) {
      found_.attention[row] = all_rows;
      found_.last_attention[row] = last_rows;
    }
  }

  bool rounds(AttentionKind kind, std::int64_t n_queries, std::int64_t kv_len) const {
    const SequenceSpan span{0, n_queries, kv_len};
    AttentionArgs args;
    args.kv.dtype = variant_.kv_dtype;
    args.seqs = {&span, 1};
    args.n_heads = config_.n_heads;
    args.n_kv_heads = config_.n_kv_heads;
    args.head_dim = config_.head_dim;
    args.window = config_.sliding_window;
    return ops_.rounds_attention(kind, args);
  }

  const Operations& ops_;
  const ModelConfig& config_;
  const Variant& variant_;
  ReferenceRounding found_;
};

}  // namespace

ReferenceRounding rounding_points(const Operations& ops, const ModelConfig& config, const Variant& variant,
                                  std::int64_t n_tokens, std::int64_t prompt_tokens) {
  ReferenceRounding rounding;
  if (!ops.rounds_product_inputs()) return rounding;
  if (variant.cache != CacheKind::none && variant.kv_dtype == DType::bf16) {
    RoundingPoints points(ops, config, variant, n_tokens);
    points.add_prefill(prompt_tokens);
    for (std::int64_t position = prompt_tokens; position < n_tokens; ++position) points.add_decode_step(position);
    rounding = points.found();
    rounding.kv = true;
  }
  rounding.product_inputs = variant.weight_dtype == DType::bf16;
  return rounding;
}

}  // namespace kvlab
