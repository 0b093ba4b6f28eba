#include "harness/workspace_accounting.h"

#include <algorithm>
#include <vector>

#include "harness/exact.h"

namespace kvlab {
namespace {

/// One pass, the same for each of the `batch` sequences.
struct Pass {
  std::int64_t batch;
  std::int64_t rows;        // new rows a sequence
  std::int64_t kv_len;      // keys that the last row may see
  std::int64_t logit_rows;  // a sequence
  AttentionKind attention;
};

std::int64_t logit_rows(const Variant& variant, std::int64_t rows, bool last_of_call) {
  if (variant.logits == LogitsKind::all) return rows;
  return last_of_call ? 1 : 0;
}

/// The passes of a call that brings `n` tokens after `cached` ones, as far as none of the others can be larger: of
/// equal chunks, the one that sees most keys.
std::vector<Pass> largest_passes(const Variant& variant, std::int64_t batch, std::int64_t cached, std::int64_t n,
                                 AttentionKind attention) {
  const std::int64_t end = (Exact(cached) + n).value();
  if (variant.cache == CacheKind::none) return {{batch, end, end, logit_rows(variant, end, true), attention}};
  const std::int64_t chunk = variant.prefill_chunk > 0 ? std::min(variant.prefill_chunk, n) : n;
  const std::int64_t tail = n % chunk;
  if (tail == 0) return {{batch, chunk, end, logit_rows(variant, chunk, true), attention}};
  return {{batch, chunk, end - tail, logit_rows(variant, chunk, false), attention},
          {batch, tail, end, logit_rows(variant, tail, true), attention}};
}

/// Scratch of one layer's attention over `rows` rows a sequence.
std::int64_t attention_bytes(const ModelConfig& config, const Variant& variant, const Pass& pass, std::int64_t rows,
                             const Operations& ops) {
  constexpr std::int32_t kAnyPage = 0;  // backends ask whether there are pages, not which
  std::vector<SequenceSpan> seqs;
  for (std::int64_t seq = 0; seq < pass.batch; ++seq) seqs.push_back({seq * rows, rows, pass.kv_len});
  AttentionArgs args;
  args.seqs = seqs;
  args.n_heads = config.n_heads;
  args.n_kv_heads = config.n_kv_heads;
  args.head_dim = config.head_dim;
  args.window = config.sliding_window;
  if (variant.cache != CacheKind::none) args.kv.dtype = variant.kv_dtype;
  if (variant.cache == CacheKind::paged) args.kv.page_table = &kAnyPage;
  return static_cast<std::int64_t>(ops.attention_workspace_bytes(pass.attention, args));
}

std::int64_t pass_bytes(const ModelConfig& config, const Variant& variant, const Pass& pass, const Operations& ops) {
  const bool prunes = prunes_last_layer(variant) && pass.logit_rows < pass.rows;
  const bool any_whole_layer = !prunes || config.n_layers > 1;
  const std::int64_t attended = any_whole_layer ? pass.rows : pass.logit_rows;  // most rows of a layer's attention
  const Exact n = Exact(pass.batch) * pass.rows;
  const Exact n_logits = Exact(pass.batch) * pass.logit_rows;
  const Exact q_width = Exact(config.n_heads) * config.head_dim;
  const Exact qkv_width = q_width + Exact(2) * config.n_kv_heads * config.head_dim;

  Exact floats = n * config.hidden * 2 + n * qkv_width;
  if (prunes) floats += n_logits * (Exact(2) * config.hidden + q_width);
  if (!prunes && pass.logit_rows < pass.rows) floats += n_logits * config.hidden;
  floats += n_logits * config.vocab_size;
  if (attended == 0) return (floats * sizeof(float)).value();

  const std::int64_t mlp_buffers = config.family == Family::llama ? 3 : 1;
  floats += Exact(pass.batch) * attended * q_width + n * config.ffn_hidden * mlp_buffers;
  return (floats * sizeof(float) + attention_bytes(config, variant, pass, attended, ops)).value();
}

std::int64_t largest_bytes(const ModelConfig& config, const Variant& variant, const std::vector<Pass>& passes,
                           const Operations& ops) {
  std::int64_t most = 0;
  for (const Pass& pass : passes) most = std::max(most, pass_bytes(config, variant, pass, ops));
  return most;
}

}  // namespace

std::int64_t prefill_workspace_bytes(const ModelConfig& config, const Variant& variant, const Workload& workload,
                                     const Operations& ops) {
  const std::vector<Pass> passes =
      largest_passes(variant, workload.batch, workload.depth, workload.prompt_tokens, variant.prefill_attention);
  return largest_bytes(config, variant, passes, ops);
}

std::int64_t decode_step_workspace_bytes(const ModelConfig& config, const Variant& variant, const Workload& workload,
                                         std::int64_t i, const Operations& ops) {
  const std::int64_t cached = (Exact(workload.depth) + workload.prompt_tokens + i + -1).value();
  return largest_bytes(config, variant, largest_passes(variant, workload.batch, cached, 1, variant.decode_attention),
                       ops);
}

std::int64_t workspace_bytes(const ModelConfig& config, const Variant& variant, const Workload& workload,
                             const Operations& ops) {
  std::int64_t most = prefill_workspace_bytes(config, variant, workload, ops);
  if (workload.depth > 0 && workload.kv_fill == KvFill::prefill) {
    const Workload depth{workload.batch, 0, workload.depth, 1};
    most = std::max(most, prefill_workspace_bytes(config, variant, depth, ops));
  }
  if (workload.gen_tokens > 1) {
    most = std::max(most, decode_step_workspace_bytes(config, variant, workload, workload.gen_tokens - 1, ops));
  }
  return most;
}

}  // namespace kvlab
