// The table of products and vectors, and the two operations that depend on the cache: append and attention.
#include "harness/operation_table.h"

#include <algorithm>
#include <array>

#include "harness/exact.h"
#include "model/weight_source.h"

namespace kvlab {
namespace {

using enum WeightRole;

/// Which rows of the pass an operation works on.
enum class RowsOf {
  pass,     // every row
  queries,  // every row; in a pruned last layer those with logits
  logits,   // those with logits
};

/// 2 FLOPs per element of `matrices` and row; every element of `matrices` and `vectors` is read once a pass.
struct WeightedOperation {
  Operation operation;
  RowsOf rows;
  std::vector<WeightRole> matrices;
  std::vector<WeightRole> vectors;
};

const std::array kBeforeAttention = {
    WeightedOperation{Operation::attention_norm, RowsOf::pass, {}, {attention_norm, attention_norm_bias}},
    WeightedOperation{Operation::q_projection, RowsOf::queries, {q}, {q_bias, q_norm}},
    WeightedOperation{Operation::kv_projection, RowsOf::pass, {k, v}, {k_bias, v_bias, k_norm}},
};
const std::array kAfterAttention = {
    WeightedOperation{Operation::output_projection, RowsOf::queries, {attention_output}, {attention_output_bias}},
    WeightedOperation{Operation::mlp_norm, RowsOf::queries, {}, {mlp_norm, mlp_norm_bias}},
    WeightedOperation{Operation::mlp_up, RowsOf::queries, {gate, up}, {up_bias}},
    WeightedOperation{Operation::mlp_down, RowsOf::queries, {down}, {down_bias}},
};
const std::array kAfterLayers = {
    WeightedOperation{Operation::final_norm, RowsOf::logits, {}, {final_norm, final_norm_bias}},
    WeightedOperation{Operation::lm_head, RowsOf::logits, {lm_head}, {}},
};

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
std::int64_t distinct_positions(std::int64_t rows, std::int64_t kv_len, std::int64_t window) {
  if (rows == 0) return 0;
  return window == 0 ? kv_len : std::min(kv_len, window + rows - 1);
}

class PassTable {
 public:
  PassTable(const ModelConfig& config, const Variant& variant, std::span<const SequenceRows> sequences)
      : config_(config),
        variant_(variant),
        sequences_(sequences),
        weight_size_(static_cast<std::int64_t>(dtype_bytes(variant.weight_dtype))),
        kv_size_(static_cast<std::int64_t>(dtype_bytes(variant.kv_dtype))) {
    for (const SequenceRows& sequence : sequences) {
      pass_rows_ = (Exact(sequence.rows) * sequence.count + pass_rows_).value();
      logit_rows_ = (Exact(logit_rows_of(sequence)) * sequence.count + logit_rows_).value();
    }
  }

  std::vector<OperationWork> operations() {
    embed();
    for (layer_ = 0; layer_ < config_.n_layers; ++layer_) {
      pruned_ = prunes_last_layer(variant_) && layer_ == config_.n_layers - 1 && logit_rows_ < pass_rows_;
      for (const WeightedOperation& formula : kBeforeAttention) weigh(formula);
      append();
      attend();
      for (const WeightedOperation& formula : kAfterAttention) weigh(formula);
    }
    layer_ = -1;
    for (const WeightedOperation& formula : kAfterLayers) weigh(formula);
    return std::move(list_);
  }

 private:
  std::int64_t logit_rows_of(const SequenceRows& sequence) const {
    if (variant_.logits == LogitsKind::all) return sequence.rows;
    return sequence.wants_logits ? 1 : 0;
  }

  std::int64_t query_rows_of(const SequenceRows& sequence) const {
    return pruned_ ? logit_rows_of(sequence) : sequence.rows;
  }

  OperationWork& add(Operation operation, std::int64_t rows) {
    list_.push_back({});
    list_.back().operation = operation;
    list_.back().layer = layer_;
    list_.back().rows = rows;
    return list_.back();
  }

  /// Elements of the weights among `roles` that the model has. A tied LM head multiplies like any other.
  Exact elements(std::span<const WeightRole> roles) const {
    Exact sum = 0;
    for (const WeightRole role : roles) {
      if (!has_role(config_, role) && role != lm_head) continue;
      const RoleShape shape = role_shape(config_, role);
      sum += Exact(shape.rows) * shape.cols;
    }
    return sum;
  }

  void embed() {
    const std::int64_t tables = has_role(config_, position_embedding) ? 2 : 1;
    add(Operation::embedding, pass_rows_).weight_bytes =
        (Exact(pass_rows_) * config_.hidden * tables * weight_size_).value();
  }

  void weigh(const WeightedOperation& formula) {
    const std::int64_t query_rows = pruned_ ? logit_rows_ : pass_rows_;
    const std::int64_t rows = formula.rows == RowsOf::pass      ? pass_rows_
                              : formula.rows == RowsOf::queries ? query_rows
                                                                : logit_rows_;
    OperationWork& work = add(formula.operation, rows);
    if (rows == 0) return;
    const Exact matrices = elements(formula.matrices);
    work.flops = (Exact(2) * matrices * rows).value();
    work.weight_bytes = ((matrices + elements(formula.vectors)) * weight_size_).value();
  }

  Exact kv_row_bytes() const { return Exact(2) * config_.n_kv_heads * config_.head_dim * kv_size_; }

  void append() {
    OperationWork& work = add(Operation::append, pass_rows_);
    if (variant_.cache == CacheKind::none) return;
    Exact row_bytes = kv_row_bytes();
    if (variant_.cache == CacheKind::qkv && !pruned_) {
      row_bytes += Exact(config_.n_heads) * config_.head_dim * kv_size_;
    }
    work.kv_write_bytes = (row_bytes * pass_rows_).value();
  }

  void attend() {
    Exact dots = 0;
    Exact newest = 0;
    Exact positions = 0;
    for (const SequenceRows& sequence : sequences_) {
      const std::int64_t rows = query_rows_of(sequence);
      const std::int64_t window = config_.sliding_window;
      dots += causal_dots(rows, sequence.kv_len, window) * sequence.count;
      if (rows > 0) newest += causal_dots(1, sequence.kv_len, window) * sequence.count;
      positions += Exact(distinct_positions(rows, sequence.kv_len, window)) * sequence.count;
    }
    OperationWork& work = add(Operation::attention, pruned_ ? logit_rows_ : pass_rows_);
    work.dots = dots.value();
    work.dots_newest_row = newest.value();
    work.flops = (Exact(4) * config_.n_heads * config_.head_dim * dots).value();
    if (variant_.cache != CacheKind::none) work.kv_read_bytes = (kv_row_bytes() * positions).value();
  }

  const ModelConfig& config_;
  const Variant& variant_;
  std::span<const SequenceRows> sequences_;
  std::int64_t weight_size_;
  std::int64_t kv_size_;
  std::int64_t pass_rows_ = 0;
  std::int64_t logit_rows_ = 0;
  std::int64_t layer_ = -1;
  bool pruned_ = false;
  std::vector<OperationWork> list_;
};

/// Adds without wrapping.
void add(std::int64_t& sum, std::int64_t term) { sum = (Exact(sum) + term).value(); }

}  // namespace

std::string_view operation_name(Operation operation) {
  switch (operation) {
    case Operation::embedding:
      return "embedding";
    case Operation::attention_norm:
      return "attention norm";
    case Operation::q_projection:
      return "Q projection";
    case Operation::kv_projection:
      return "K and V projection";
    case Operation::append:
      return "append";
    case Operation::attention:
      return "attention";
    case Operation::output_projection:
      return "output projection";
    case Operation::mlp_norm:
      return "MLP norm";
    case Operation::mlp_up:
      return "MLP up projection";
    case Operation::mlp_down:
      return "MLP down projection";
    case Operation::final_norm:
      return "final norm";
    case Operation::lm_head:
      break;
  }
  return "LM head";
}

std::vector<OperationWork> pass_operations(const ModelConfig& config, const Variant& variant,
                                           std::span<const SequenceRows> sequences) {
  return PassTable(config, variant, sequences).operations();
}

void add_pass(WorkCounters& sum, std::span<const OperationWork> operations) {
  std::size_t layer = 0;  // of the next attention
  for (const OperationWork& work : operations) {
    if (work.operation == Operation::embedding) {
      add(sum.rows, work.rows);
      add(sum.kv_projection_rows, work.rows);
    }
    if (work.operation == Operation::attention) {
      if (sum.attention_dots.size() <= layer) sum.attention_dots.resize(layer + 1);
      if (sum.attention_dots_newest_row.size() <= layer) sum.attention_dots_newest_row.resize(layer + 1);
      add(sum.attention_dots[layer], work.dots);
      add(sum.attention_dots_newest_row[layer], work.dots_newest_row);
      ++layer;
    }
    add(work.operation == Operation::attention ? sum.attention_flops : sum.gemm_flops, work.flops);
    add(sum.weight_bytes, work.weight_bytes);
    add(sum.kv_read_bytes, work.kv_read_bytes);
    add(sum.kv_write_bytes, work.kv_write_bytes);
  }
}

}  // namespace kvlab
