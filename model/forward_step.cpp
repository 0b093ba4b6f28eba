#include "model/forward_step.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace kvlab {

ForwardStep::ForwardStep(const ForwardContext& context, const StepInput& input, KvCache& cache, bool prune,
                         float* logits)
    : context_(context),
      config_(context.config),
      ops_(context.ops),
      cache_(cache),
      prune_(prune && input.logit_rows.size() < input.tokens.size()),
      logits_(logits),
      n_tokens_(static_cast<std::int64_t>(input.tokens.size())),
      hidden_(config_.hidden),
      q_width_(config_.n_heads * config_.head_dim),
      kv_width_(config_.n_kv_heads * config_.head_dim),
      qkv_width_(q_width_ + 2 * kv_width_),
      fusions_(ops_.fusions()),
      weight_element_bytes_(dtype_bytes(context.weights.lm_head().dtype())) {
  take(input);
  rows_ = {context.workspace.floats(Scratch::residual, n_tokens_ * hidden_), n_tokens_, input_.seqs};
  work_.rows = n_tokens_;
  work_.kv_projection_rows = n_tokens_;
}

void ForwardStep::take(const StepInput& input) {
  input_.tokens.assign(input.tokens.begin(), input.tokens.end());
  input_.positions.assign(input.positions.begin(), input.positions.end());
  input_.seqs.assign(input.seqs.begin(), input.seqs.end());
  input_.seq_ids.assign(input.seq_ids.begin(), input.seq_ids.end());
  input_.logit_rows.assign(input.logit_rows.begin(), input.logit_rows.end());
  input_.attention = input.attention;
  input_.chosen = input.chosen;
  if (prune_) find_kept_rows();
  cache_.begin_step(input_.seqs, input_.seq_ids);
}

/// The newest row of each sequence whose logits are wanted, as a pruned last layer sees it.
void ForwardStep::find_kept_rows() {
  kept_spans_.assign(input_.seqs.begin(), input_.seqs.end());
  kept_positions_.clear();
  const auto n = static_cast<std::int64_t>(input_.logit_rows.size());
  std::int64_t kept = 0;
  for (SequenceSpan& span : kept_spans_) {
    const std::int64_t last_row = span.first_row + span.n_queries - 1;
    const bool wanted = kept < n && input_.logit_rows[static_cast<std::size_t>(kept)] == last_row;
    span = {kept, wanted ? 1 : 0, span.kv_len};
    if (!wanted) continue;
    kept_positions_.push_back(input_.positions[static_cast<std::size_t>(last_row)]);
    ++kept;
  }
  if (kept != n) throw std::logic_error("pruning keeps the newest row of a sequence only");
}

WorkCounters ForwardStep::run(StepObserver* observer) {
  observer_ = observer;
  issue();
  finish_counting();
  return std::move(work_);
}

std::unique_ptr<RecordedGraph> ForwardStep::record() {
  recording_ = true;
  ops_.begin_recording();
  try {
    issue();
  } catch (...) {
    ops_.end_recording();
    throw;
  }
  workspace_growths_ = context_.workspace.growths();
  return ops_.end_recording();
}

bool ForwardStep::serves(const ForwardContext& context, const StepInput& input, const KvCache& cache, bool prune,
                         const float* logits) const {
  const auto same_rows = [](const SequenceSpan& a, const SequenceSpan& b) {
    return a.first_row == b.first_row && a.n_queries == b.n_queries;
  };
  return &context.workspace == &context_.workspace && context.workspace.growths() == workspace_growths_ &&
         context.rope_table == context_.rope_table && &cache == &cache_ && logits == logits_ &&
         (prune && input.logit_rows.size() < input.tokens.size()) == prune_ && input.attention == input_.attention &&
         input.chosen == input_.chosen && input.tokens.size() == input_.tokens.size() &&
         std::equal(input.seqs.begin(), input.seqs.end(), input_.seqs.begin(), input_.seqs.end(), same_rows) &&
         std::equal(input.logit_rows.begin(), input.logit_rows.end(), input_.logit_rows.begin(),
                    input_.logit_rows.end());
}

void ForwardStep::issue() {
  embed();
  for (std::int64_t l = 0; l < config_.n_layers; ++l) layer(l);
  layer_ = -1;
  if (!input_.logit_rows.empty()) head();
}

void ForwardStep::embed() {
  const PackedWeights& weights = context_.weights;
  const ProfilerRange operation("embedding");
  const std::int32_t* ids = input_.chosen == nullptr ? input_.tokens.data() : input_.chosen;
  ops_.embed(*weights.token_embedding, std::span(ids, input_.tokens.size()), rows_.residual, false);
  std::int64_t tables = 1;
  if (weights.position_embedding != nullptr) {
    ops_.embed(*weights.position_embedding, input_.positions, rows_.residual, true);
    tables = 2;
  }
  const std::int64_t bytes = tables * n_tokens_ * hidden_ * static_cast<std::int64_t>(weight_element_bytes_);
  work_.weight_bytes += bytes;
  noted_weight_bytes_ += bytes;
  note(operation, "X", {n_tokens_, hidden_});
}

void ForwardStep::layer(std::int64_t l) {
  const ProfilerRange range("layer", l);
  layer_ = l;
  const PackedLayer& weights = context_.weights.layers[static_cast<std::size_t>(l)];
  const QueryRows queries = project_and_append(weights);
  if (rows_.n == 0) return;  // an inner prefill chunk of a pruned last layer: K and V were all that anyone needs
  attend(queries);
  mlp(weights);
}

ForwardStep::QueryRows ForwardStep::project_and_append(const PackedLayer& weights) {
  const bool prunes = prune_ && layer_ == config_.n_layers - 1;
  const bool rotates_in_append = !prunes && fusions_.rope_append && cache_.keeps_tokens();
  float* row = context_.workspace.floats(Scratch::qkv, n_tokens_ * qkv_width_);  // Q heads, K heads, V heads
  float* k = row + q_width_;
  float* normed = context_.workspace.floats(Scratch::normed, n_tokens_ * hidden_);
  const PackedLinear& joined = weights.qkv.joined;
  const bool fused = !prunes && joined.weight != nullptr && fuses(n_tokens_);
  ProfilerRange operation(fused ? "attention norm + QKV projection" : "attention norm");
  QueryRows queries{row, qkv_width_};
  if (fused) {
    multiply_normed(joined, weights.attention_norm, n_tokens_, row, normed, nullptr);
  } else {
    queries = project(operation, weights, prunes, row, normed);
  }
  const float* rope_table = rotates_in_append ? nullptr : context_.rope_table;
  if (!prunes) {
    normalise_heads(row, qkv_width_, n_tokens_, config_.n_heads, weights.q_norm);
    rotate(row, qkv_width_, n_tokens_, config_.n_heads, input_.positions, rope_table);
  }
  normalise_heads(k, qkv_width_, n_tokens_, config_.n_kv_heads, weights.k_norm);
  rotate(k, qkv_width_, n_tokens_, config_.n_kv_heads, input_.positions, rope_table);
  note(operation, "Q", {rows_.n, q_width_});
  note_part(operation, "K", {n_tokens_, kv_width_});
  note_part(operation, "V", {n_tokens_, kv_width_});

  append(operation, !prunes, rotates_in_append, row);
  return queries;
}

/// Puts rows of Q, K and V into the cache; with `rotates` Q and K are still to be rotated.
void ForwardStep::append(ProfilerRange& operation, bool has_q, bool rotates, float* row) {
  operation.next("append");
  float* k = row + q_width_;
  QkvRows rows{has_q ? row : nullptr, k, k + kv_width_, qkv_width_};
  if (rotates) rows.rotation = {config_.n_heads, input_.positions, context_.rope_table};
  const std::int64_t written = cache_.append(ops_, layer_, rows);
  work_.kv_write_bytes += written;
  noted_kv_write_bytes_ += written;
  if (cache_.keeps_tokens()) {
    note(operation, "K cache", {input_.seqs.front().kv_len, kv_width_});
    note_part(operation, "V cache", {input_.seqs.front().kv_len, kv_width_});
  }
}

/// Norm and projections, into rows of Q, K and V. A layer that prunes has K and V there, and the kept rows of Q, final,
/// in memory of their own.
ForwardStep::QueryRows ForwardStep::project(ProfilerRange& operation, const PackedLayer& weights, bool prunes,
                                            float* row, float* normed) {
  norm(rows_.residual, n_tokens_, weights.attention_norm, weights.attention_norm_bias, normed);
  note(operation, "normed", {n_tokens_, hidden_});

  operation.next("QKV projection");
  if (prunes) {
    project_kv(weights.qkv, normed, row + q_width_);
    keep_logit_rows(normed);
    Workspace& workspace = context_.workspace;
    const QueryRows kept{workspace.floats(Scratch::kept_q, rows_.n * q_width_), q_width_};
    if (rows_.n == 0) return kept;
    project_q(weights.qkv, workspace.floats(Scratch::kept_normed, rows_.n * hidden_), kept);
    normalise_heads(kept.q, q_width_, rows_.n, config_.n_heads, weights.q_norm);
    rotate(kept.q, q_width_, rows_.n, config_.n_heads, kept_positions_, context_.rope_table);
    return kept;
  }
  const QueryRows queries{row, qkv_width_};
  const PackedLinear& joined = weights.qkv.joined;
  if (joined.weight != nullptr) {
    multiply(*joined.weight, joined.bias, normed, n_tokens_, row, qkv_width_, false);
  } else {
    project_q(weights.qkv, normed, queries);
    project_kv(weights.qkv, normed, row + q_width_);
  }
  return queries;
}

/// Whether products of so many rows take the norm before them along.
bool ForwardStep::fuses(std::int64_t n) const { return config_.family == Family::llama && n <= fusions_.product_rows; }

void ForwardStep::project_q(const PackedQkv& qkv, const float* x, const QueryRows& queries) {
  multiply(*qkv.q.weight, qkv.q.bias, x, rows_.n, queries.q, queries.stride, false);
}

void ForwardStep::project_kv(const PackedQkv& qkv, const float* x, float* k) {
  if (qkv.kv.weight != nullptr) {
    multiply(*qkv.kv.weight, qkv.kv.bias, x, n_tokens_, k, qkv_width_, false);
    return;
  }
  multiply(*qkv.k.weight, qkv.k.bias, x, n_tokens_, k, qkv_width_, false);
  multiply(*qkv.v.weight, qkv.v.bias, x, n_tokens_, k + kv_width_, qkv_width_, false);
}

/// The per-head norm, where the model has one.
void ForwardStep::normalise_heads(float* x, std::int64_t stride, std::int64_t n, std::int64_t n_heads,
                                  const PackedVector& weight) {
  if (weight.data() == nullptr) return;
  use(weight);
  for (std::int64_t h = 0; h < n_heads; ++h) {
    float* head = x + h * config_.head_dim;
    ops_.rms_norm(head, stride, n, config_.head_dim, weight.data(), static_cast<float>(config_.norm_eps), head, stride);
  }
}

void ForwardStep::rotate(float* x, std::int64_t stride, std::int64_t n, std::int64_t n_heads,
                         std::span<const std::int32_t> positions, const float* rope_table) {
  if (rope_table == nullptr) return;
  ops_.rope(x, stride, n, n_heads, config_.head_dim, positions.data(), rope_table);
}

/// From here on the last layer works on the logit rows alone.
void ForwardStep::keep_logit_rows(const float* normed) {
  const auto n = static_cast<std::int64_t>(input_.logit_rows.size());
  Workspace& workspace = context_.workspace;
  float* residual = workspace.floats(Scratch::kept_residual, n * hidden_);
  if (n > 0) {
    ops_.gather_rows(normed, hidden_, input_.logit_rows, hidden_, workspace.floats(Scratch::kept_normed, n * hidden_),
                     hidden_);
    ops_.gather_rows(rows_.residual, hidden_, input_.logit_rows, hidden_, residual, hidden_);
  }
  rows_ = {residual, n, kept_spans_};
}

void ForwardStep::attend(const QueryRows& queries) {
  ProfilerRange operation("attention");
  AttentionArgs args;
  args.q = queries.q;
  args.q_stride = queries.stride;
  args.out = context_.workspace.floats(Scratch::attention_out, rows_.n * q_width_);
  args.out_stride = q_width_;
  args.kv = cache_.view(layer_);
  args.seqs = rows_.spans;
  args.n_heads = config_.n_heads;
  args.n_kv_heads = config_.n_kv_heads;
  args.head_dim = config_.head_dim;
  args.window = config_.sliding_window;
  args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  const AttentionWork attention = ops_.attention(input_.attention, args);
  if (recording_) {
    attention_args_.push_back(args);  // counted after each run
  } else {
    count_attention(args, attention);
  }
  note_part(operation, "Q (a head)", {rows_.n, config_.head_dim});
  note_part(operation, "K, V (a head)", {rows_.spans.front().kv_len, config_.head_dim});
  note_part(operation, "scores (a head)", {rows_.n, rows_.spans.front().kv_len});
  note_part(operation, "head out", {rows_.n, config_.head_dim});
  note(operation, "heads joined", {rows_.n, q_width_});

  operation.next("output projection + residual");
  const PackedLinear& output = context_.weights.layers[static_cast<std::size_t>(layer_)].attention_output;
  multiply(*output.weight, output.bias, args.out, rows_.n, rows_.residual, hidden_, true);
  note(operation, "projected", {rows_.n, hidden_});
}

void ForwardStep::mlp(const PackedLayer& weights) {
  Workspace& workspace = context_.workspace;
  const bool gated = config_.family == Family::llama;
  const std::int64_t up_width = weights.up.weight->n_out();
  float* normed = workspace.floats(Scratch::normed, n_tokens_ * hidden_);
  float* up = workspace.floats(Scratch::up, n_tokens_ * up_width);
  float* activated = gated ? workspace.floats(Scratch::activated, n_tokens_ * config_.ffn_hidden) : up;
  const bool fused = fuses(rows_.n);
  ProfilerRange operation(fused ? "MLP norm + gate and up projection + SwiGLU" : "MLP norm");
  if (fused) {
    multiply_normed(weights.up, weights.mlp_norm, rows_.n, activated, normed, up);
    note(operation, "MLP", {rows_.n, config_.ffn_hidden});
  } else {
    activate(operation, weights, normed, up, activated);
  }
  operation.next("MLP down projection + residual");
  multiply(*weights.down.weight, weights.down.bias, activated, rows_.n, rows_.residual, hidden_, true);
  note(operation, "block out", {rows_.n, hidden_});
}

/// The MLP up to its down projection, operation by operation.
void ForwardStep::activate(ProfilerRange& operation, const PackedLayer& weights, float* normed, float* up,
                           float* activated) {
  const bool gated = config_.family == Family::llama;
  const std::int64_t up_width = weights.up.weight->n_out();
  norm(rows_.residual, rows_.n, weights.mlp_norm, weights.mlp_norm_bias, normed);
  note(operation, "normed", {rows_.n, hidden_});

  operation.next(gated ? "MLP gate and up projection" : "MLP up projection");
  multiply(*weights.up.weight, weights.up.bias, normed, rows_.n, up, up_width, false);
  note(operation, gated ? "gate, up" : "MLP", {rows_.n, up_width});
  operation.next(gated ? "SwiGLU" : "GELU");
  if (gated) {
    ops_.silu_multiply(up, rows_.n, config_.ffn_hidden, activated);
  } else {
    ops_.gelu(up, rows_.n * up_width);
  }
  note(operation, "MLP", {rows_.n, config_.ffn_hidden});
}

void ForwardStep::head() {
  const auto n = static_cast<std::int64_t>(input_.logit_rows.size());
  Workspace& workspace = context_.workspace;
  ProfilerRange operation("final norm");
  const float* rows = rows_.residual;
  if (rows_.n != n) {
    float* gathered = workspace.floats(Scratch::kept_residual, n * hidden_);
    ops_.gather_rows(rows_.residual, hidden_, input_.logit_rows, hidden_, gathered, hidden_);
    rows = gathered;
  }
  float* normed = workspace.floats(Scratch::normed, n * hidden_);
  norm(rows, n, context_.weights.final_norm, context_.weights.final_norm_bias, normed);
  note(operation, "normed", {n, hidden_});
  operation.next("LM head");
  multiply(context_.weights.lm_head(), {}, normed, n, logits_, config_.vocab_size, false);
  note(operation, "logits", {n, config_.vocab_size});
}

void ForwardStep::norm(const float* x, std::int64_t n, const PackedVector& weight, const PackedVector& bias, float* y) {
  use(weight);
  use(bias);
  const auto eps = static_cast<float>(config_.norm_eps);
  if (config_.family == Family::llama) {
    ops_.rms_norm(x, hidden_, n, hidden_, weight.data(), eps, y, hidden_);
  } else {
    ops_.layer_norm(x, hidden_, n, hidden_, weight.data(), bias.data(), eps, y, hidden_);
  }
}

void ForwardStep::multiply(const PackedMatrix& weight, const PackedVector& bias, const float* x, std::int64_t n,
                           float* y, std::int64_t y_stride, bool accumulate) {
  ops_.matmul(weight, x, weight.n_in(), n, y, y_stride, bias.data(), accumulate);
  count_product(weight, bias, n);
}

/// The rows of the residual stream, normalised, times a weight; with `gate_up`, scratch, gated as well.
void ForwardStep::multiply_normed(const PackedLinear& linear, const PackedVector& norm_weight, std::int64_t n, float* y,
                                  float* normed, float* gate_up) {
  ops_.fused_matmul({linear.weight.get(), rows_.residual, n, norm_weight.data(), static_cast<float>(config_.norm_eps),
                     linear.bias.data(), y, normed, gate_up});
  use(norm_weight);
  count_product(*linear.weight, linear.bias, n);
}

}  // namespace kvlab
