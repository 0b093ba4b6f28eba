// Formulas for rows, dots, FLOPs and bytes, pass by pass. The conventions stand in accounting.h.
#include "harness/accounting.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/exact.h"
#include "model/weight_source.h"
#include "variants/cache/kv_cache.h"

namespace kvlab {
namespace {

/// One pass, the same for each of the `batch` sequences.
struct Pass {
  std::int64_t batch;
  std::int64_t rows;    // new rows a sequence
  std::int64_t kv_len;  // keys that the last row may see, itself included
  bool last_of_call;    // its last row's logits are wanted
};

/// What one layer does in a pass, a sequence.
struct LayerRows {
  std::int64_t full;    // rows that go through Q, attention and MLP: the last ones of the pass
  std::int64_t window;  // 0: none
};

void check_workload(const Workload& workload) {
  if (workload.batch < 1 || workload.prompt_tokens < 1 || workload.depth < 0 || workload.gen_tokens < 0) {
    throw InputError(
        fmt::format("a workload needs batch >= 1, prompt_tokens >= 1, depth >= 0 and gen_tokens >= 0; got batch {}, "
                    "prompt_tokens {}, depth {}, gen_tokens {}",
                    workload.batch, workload.prompt_tokens, workload.depth, workload.gen_tokens));
  }
}

std::int64_t logit_rows(const Variant& variant, const Pass& pass) {
  if (variant.logits == LogitsKind::all) return pass.rows;
  return pass.last_of_call ? 1 : 0;
}

LayerRows layer_rows(const ModelConfig& config, const Variant& variant, const Pass& pass, std::int64_t layer) {
  const bool pruned = prunes_last_layer(variant) && layer == config.n_layers - 1;
  return {pruned ? logit_rows(variant, pass) : pass.rows, config.sliding_window};
}

/// first + (first + 1) + ... + last.
Exact sum_of_range(std::int64_t first, std::int64_t last) {
  if (last < first) return 0;
  const std::int64_t twice = ((Exact(first) + last) * (last - first + 1)).value();
  return twice / 2;
}

/// Keys seen by the last `rows` positions below `kv_len`: position p sees p + 1 keys, at most `window`.
Exact causal_dots(std::int64_t rows, std::int64_t kv_len, std::int64_t window) {
  const std::int64_t first = kv_len - rows + 1;  // keys that the first of the rows sees
  if (window == 0 || kv_len <= window) return sum_of_range(first, kv_len);
  const std::int64_t last_growing = std::max(first - 1, window);
  return sum_of_range(first, last_growing) + Exact(kv_len - last_growing) * window;
}

/// Distinct positions that the last `rows` positions below `kv_len` see.
std::int64_t distinct_positions(const LayerRows& rows, std::int64_t kv_len) {
  if (rows.full == 0) return 0;
  return rows.window == 0 ? kv_len : std::min(kv_len, rows.window + rows.full - 1);
}

Exact elements(const ModelConfig& config, WeightRole role) {
  if (!has_role(config, role)) return 0;
  const RoleShape shape = role_shape(config, role);
  return Exact(shape.rows) * shape.cols;
}

Exact elements(const ModelConfig& config, std::initializer_list<WeightRole> roles) {
  Exact sum = 0;
  for (const WeightRole role : roles) sum += elements(config, role);
  return sum;
}

/// Weights that a layer needs for K and V alone.
Exact kv_only_elements(const ModelConfig& config) {
  using enum WeightRole;
  return elements(config, {attention_norm, attention_norm_bias, k, v, k_bias, v_bias, k_norm});
}

Exact layer_elements(const ModelConfig& config) {
  using enum WeightRole;
  return kv_only_elements(config) + elements(config, {q, q_bias, q_norm, attention_output, attention_output_bias,
                                                      mlp_norm, mlp_norm_bias, gate, up, up_bias, down, down_bias});
}

Exact pass_weight_bytes(const ModelConfig& config, const Variant& variant, const Pass& pass) {
  Exact sum = Exact(pass.rows) * pass.batch * config.hidden;
  if (has_role(config, WeightRole::position_embedding)) sum = sum * 2;
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    const bool whole = layer_rows(config, variant, pass, layer).full > 0;
    sum += whole ? layer_elements(config) : kv_only_elements(config);
  }
  if (logit_rows(variant, pass) > 0) {
    sum += elements(config, {WeightRole::final_norm, WeightRole::final_norm_bias});
    sum += Exact(config.vocab_size) * config.hidden;
  }
  return sum * static_cast<std::int64_t>(dtype_bytes(variant.weight_dtype));
}

/// 2 per multiply-add of one row through everything in a layer but Wk and Wv.
Exact full_row_flops(const ModelConfig& config) {
  const std::int64_t mlp_matrices = config.family == Family::gpt2 ? 2 : 3;
  const Exact q_width = Exact(config.n_heads) * config.head_dim;
  return 2 * (q_width * config.hidden * 2 + Exact(mlp_matrices) * config.hidden * config.ffn_hidden);
}

Exact kv_row_flops(const ModelConfig& config) {
  return Exact(2) * config.hidden * (Exact(2) * config.n_kv_heads * config.head_dim);
}

Exact kv_row_bytes(const ModelConfig& config, const Variant& variant) {
  return Exact(2) * config.n_kv_heads * config.head_dim * static_cast<std::int64_t>(dtype_bytes(variant.kv_dtype));
}

Exact layer_write_bytes(const ModelConfig& config, const Variant& variant, const Pass& pass, const LayerRows& rows) {
  if (variant.cache == CacheKind::none) return 0;
  Exact row_bytes = kv_row_bytes(config, variant);
  if (variant.cache == CacheKind::qkv && rows.full == pass.rows) {
    row_bytes += Exact(config.n_heads) * config.head_dim * static_cast<std::int64_t>(dtype_bytes(variant.kv_dtype));
  }
  return row_bytes * pass.rows * pass.batch;
}

WorkCounters pass_work(const ModelConfig& config, const Variant& variant, const Pass& pass) {
  WorkCounters work;
  Exact gemm = 0;
  Exact dots_sum = 0;
  Exact read = 0;
  Exact written = 0;
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    const LayerRows rows = layer_rows(config, variant, pass, layer);
    const Exact dots = causal_dots(rows.full, pass.kv_len, rows.window) * pass.batch;
    const Exact newest = rows.full > 0 ? causal_dots(1, pass.kv_len, rows.window) * pass.batch : Exact(0);
    work.attention_dots.push_back(dots.value());
    work.attention_dots_newest_row.push_back(newest.value());
    dots_sum += dots;
    gemm += (kv_row_flops(config) * pass.rows + full_row_flops(config) * rows.full) * pass.batch;
    if (variant.cache != CacheKind::none) {
      read += kv_row_bytes(config, variant) * distinct_positions(rows, pass.kv_len) * pass.batch;
    }
    written += layer_write_bytes(config, variant, pass, rows);
  }
  gemm += Exact(2) * config.hidden * config.vocab_size * logit_rows(variant, pass) * pass.batch;
  work.rows = (Exact(pass.rows) * pass.batch).value();
  work.kv_projection_rows = work.rows;
  work.gemm_flops = gemm.value();
  work.attention_flops = (Exact(4) * config.n_heads * config.head_dim * dots_sum).value();
  work.weight_bytes = pass_weight_bytes(config, variant, pass).value();
  work.kv_read_bytes = read.value();
  work.kv_write_bytes = written.value();
  return work;
}

/// Adds without wrapping.
void add(std::int64_t& sum, std::int64_t term) { sum = (Exact(sum) + term).value(); }

void add(WorkCounters& sum, const WorkCounters& term) {
  add(sum.rows, term.rows);
  add(sum.kv_projection_rows, term.kv_projection_rows);
  sum.attention_dots.resize(term.attention_dots.size());
  sum.attention_dots_newest_row.resize(term.attention_dots_newest_row.size());
  for (std::size_t layer = 0; layer < term.attention_dots.size(); ++layer) {
    add(sum.attention_dots[layer], term.attention_dots[layer]);
    add(sum.attention_dots_newest_row[layer], term.attention_dots_newest_row[layer]);
  }
  add(sum.gemm_flops, term.gemm_flops);
  add(sum.attention_flops, term.attention_flops);
  add(sum.weight_bytes, term.weight_bytes);
  add(sum.kv_read_bytes, term.kv_read_bytes);
  add(sum.kv_write_bytes, term.kv_write_bytes);
}

}  // namespace

ModelConfig reheaded_config(const ModelConfig& config, const Variant& variant) {
  ModelConfig result = config;
  result.n_kv_heads = resolve_kv_heads(variant, config.n_heads, config.n_kv_heads);
  return result;
}

WorkCounters prefill_work(const ModelConfig& config, const Variant& variant, const Workload& workload) {
  check_workload(workload);
  const ModelConfig shape = reheaded_config(config, variant);
  const std::int64_t total = (Exact(workload.depth) + workload.prompt_tokens).value();
  if (variant.cache == CacheKind::none) return pass_work(shape, variant, {workload.batch, total, total, true});

  const std::int64_t chunk =
      variant.prefill_chunk > 0 ? std::min(variant.prefill_chunk, workload.prompt_tokens) : workload.prompt_tokens;
  WorkCounters work;
  for (std::int64_t done = 0; done < workload.prompt_tokens; done += chunk) {
    const std::int64_t rows = std::min(chunk, workload.prompt_tokens - done);
    const std::int64_t kv_len = workload.depth + done + rows;
    add(work, pass_work(shape, variant, {workload.batch, rows, kv_len, kv_len == total}));
  }
  return work;
}

WorkCounters decode_step_work(const ModelConfig& config, const Variant& variant, const Workload& workload,
                              std::int64_t i) {
  check_workload(workload);
  const ModelConfig shape = reheaded_config(config, variant);
  const std::int64_t kv_len = (Exact(workload.depth) + workload.prompt_tokens + i).value();
  const std::int64_t rows = variant.cache == CacheKind::none ? kv_len : 1;
  return pass_work(shape, variant, {workload.batch, rows, kv_len, true});
}

WorkCounters decode_work(const ModelConfig& config, const Variant& variant, const Workload& workload) {
  WorkCounters work;
  work.attention_dots.resize(static_cast<std::size_t>(config.n_layers));
  work.attention_dots_newest_row.resize(static_cast<std::size_t>(config.n_layers));
  for (std::int64_t i = 1; i < workload.gen_tokens; ++i) add(work, decode_step_work(config, variant, workload, i));
  return work;
}

std::int64_t stored_weight_bytes(const ModelConfig& config, const Variant& variant) {
  const std::int64_t parameters = parameter_count(reheaded_config(config, variant));
  return (Exact(parameters) * static_cast<std::int64_t>(dtype_bytes(variant.weight_dtype))).value();
}

std::int64_t kv_reserved_bytes(const ModelConfig& config, const Variant& variant, std::int64_t batch,
                               std::int64_t tokens) {
  const ModelConfig shape = reheaded_config(config, variant);
  const std::int64_t token_bytes = kv_bytes_per_token(
      variant.cache, {shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, variant.kv_dtype});
  const std::int64_t page = variant.cache == CacheKind::paged ? variant.page_size : 1;
  const Exact slots = Exact(tokens / page + (tokens % page == 0 ? 0 : 1)) * page;
  return (Exact(token_bytes) * slots * batch).value();
}

}  // namespace kvlab
