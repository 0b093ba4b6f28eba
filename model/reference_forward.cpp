#include "model/reference_forward.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/reference/operations.h"
#include "model/rope.h"

namespace kvlab {
namespace {

using Doubles = std::vector<double>;

constexpr std::int64_t kActivationTerms = 8;  // roundings of SiLU times up, and of GELU

class ReferenceForward {
 public:
  ReferenceForward(const WeightSource& weights, DType weight_dtype, std::span<const std::int32_t> tokens,
                   const ReferenceRounding& rounding, std::uint64_t noise)
      : weights_(weights),
        config_(weights.config()),
        dtype_(weight_dtype),
        tokens_(tokens),
        rounding_(rounding),
        noise_(noise),
        n_(static_cast<std::int64_t>(tokens.size())) {}

  Doubles run(std::int64_t rows, const std::function<void(std::int64_t, std::int64_t)>& progress) {
    embed();
    for (std::int64_t l = 0; l < config_.n_layers; ++l) {
      attention_block(l);
      mlp_block(l);
      if (progress) progress(l + 1, config_.n_layers);
    }
    const double* last = x_.data() + (n_ - rows) * config_.hidden;
    const Doubles normed = norm(last, rows, WeightRole::final_norm, WeightRole::final_norm_bias, 0);
    const WeightRole head = config_.tied_embedding ? WeightRole::token_embedding : WeightRole::lm_head;
    return product(normed, rows, head, std::nullopt, 0);
  }

 private:
  /// A matrix rounded to the weight dtype, as every variant of that dtype holds it.
  HostMatrix matrix(WeightRole role, std::int64_t layer) const {
    HostMatrix weight = weights_.read(role, layer);
    if (dtype_ == DType::bf16) {
      for (float& value : weight.values) value = bf16_to_float(bf16_from_float(value));
    }
    return weight;
  }

  /// x W^T, plus the bias where the model has that role, for x [rows, n_in].
  Doubles product(Doubles x, std::int64_t rows, WeightRole role, std::optional<WeightRole> bias_role,
                  std::int64_t layer) {
    if (rounding_.product_inputs && dtype_ == DType::bf16) round_to_bf16(x);
    const HostMatrix weight = matrix(role, layer);
    const HostMatrix bias =
        bias_role && has_role(config_, *bias_role) ? weights_.read(*bias_role, layer) : HostMatrix();
    Doubles y(static_cast<std::size_t>(rows * weight.rows));
    reference::matmul(x.data(), rows, weight.values.data(), weight.rows, weight.cols,
                      bias.values.empty() ? nullptr : bias.values.data(), y.data());
    noise_.move_product(x, weight.values, weight.cols, y);
    return y;
  }

  Doubles norm(const double* x, std::int64_t rows, WeightRole role, WeightRole bias_role, std::int64_t layer) {
    const HostMatrix weight = weights_.read(role, layer);
    Doubles y(static_cast<std::size_t>(rows * config_.hidden));
    if (config_.family == Family::llama) {
      reference::rms_norm(x, rows, config_.hidden, weight.values.data(), config_.norm_eps, y.data());
    } else {
      const HostMatrix bias = weights_.read(bias_role, layer);
      reference::layer_norm(x, rows, config_.hidden, weight.values.data(), bias.values.data(), config_.norm_eps,
                            y.data());
    }
    noise_.move(y, config_.hidden);
    return y;
  }

  void embed() {
    x_.resize(static_cast<std::size_t>(n_ * config_.hidden));
    positions_.resize(static_cast<std::size_t>(n_));
    for (std::size_t i = 0; i < positions_.size(); ++i) positions_[i] = static_cast<std::int32_t>(i);
    const HostMatrix table = matrix(WeightRole::token_embedding, 0);
    reference::embed(table.values.data(), config_.hidden, tokens_, x_.data());
    if (!has_role(config_, WeightRole::position_embedding)) return;
    const HostMatrix position_table = matrix(WeightRole::position_embedding, 0);
    Doubles added(x_.size());
    reference::embed(position_table.values.data(), config_.hidden, positions_, added.data());
    reference::add(added.data(), n_ * config_.hidden, x_.data());
  }

  /// The per-head norm (qwen3) and RoPE of Q or K, [n, heads * head_dim].
  void rotate(Doubles& x, std::int64_t heads, WeightRole head_norm, std::int64_t layer) {
    if (has_role(config_, head_norm)) {
      const HostMatrix weight = weights_.read(head_norm, layer);
      reference::rms_norm(x.data(), n_ * heads, config_.head_dim, weight.values.data(), config_.norm_eps, x.data());
    }
    if (config_.family == Family::gpt2) return;
    reference::rope(x.data(), n_, heads, config_.head_dim, positions_.data(), rope_frequencies(config_).data());
    noise_.move(x, config_.head_dim);
  }

  bool rounds_attention(std::int64_t layer, std::int64_t row) const {
    const std::vector<bool>& rows = layer == config_.n_layers - 1 ? rounding_.last_attention : rounding_.attention;
    return !rows.empty() && rows[static_cast<std::size_t>(row)];
  }

  /// Q, K and V as attention takes them, [n, heads * head_dim]. The sums of the scores move with Q.
  void round_attention_inputs(std::int64_t layer, Doubles& queries, Doubles& keys, Doubles& values) {
    if (rounding_.kv) {
      round_to_bf16(keys);
      round_to_bf16(values);
    }
    const auto width = static_cast<std::size_t>(config_.n_heads * config_.head_dim);
    for (std::int64_t row = 0; row < n_; ++row) {
      if (rounds_attention(layer, row)) {
        round_to_bf16(std::span(queries).subspan(static_cast<std::size_t>(row) * width, width));
      }
    }
    noise_.move(queries, config_.head_dim);
  }

  void round_weights(std::int64_t layer, std::int64_t row, std::int64_t head, std::span<double> weights) const {
    if (!rounds_attention(layer, row)) return;
    const double factor = noise_.weight_factor(layer, row, head);
    double sum = 0.0;
    for (double& weight : weights) sum += weight = rounded_to_bf16(weight * factor) / factor;
    if (!noise_.divides_by_rounded_sum()) return;
    for (double& weight : weights) weight /= sum;
  }

  void attention_block(std::int64_t layer) {
    using enum WeightRole;
    const Doubles normed = norm(x_.data(), n_, attention_norm, attention_norm_bias, layer);
    Doubles queries = product(normed, n_, q, q_bias, layer);
    Doubles keys = product(normed, n_, k, k_bias, layer);
    Doubles values = product(normed, n_, v, v_bias, layer);
    rotate(queries, config_.n_heads, q_norm, layer);
    rotate(keys, config_.n_kv_heads, k_norm, layer);
    round_attention_inputs(layer, queries, keys, values);
    reference::AttentionShape shape;
    shape.n_queries = n_;
    shape.kv_len = n_;
    shape.n_heads = config_.n_heads;
    shape.n_kv_heads = config_.n_kv_heads;
    shape.head_dim = config_.head_dim;
    shape.window = config_.sliding_window;
    shape.scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
    Doubles heads(queries.size());
    reference::attention(shape, queries.data(), keys.data(), values.data(), heads.data(),
                         [&](std::int64_t row, std::int64_t head, std::span<double> weights) {
                           round_weights(layer, row, head, weights);
                         });
    noise_.move(heads, n_);
    const Doubles projected = product(heads, n_, attention_output, attention_output_bias, layer);
    reference::add(projected.data(), n_ * config_.hidden, x_.data());
  }

  void mlp_block(std::int64_t layer) {
    using enum WeightRole;
    const Doubles normed = norm(x_.data(), n_, mlp_norm, mlp_norm_bias, layer);
    Doubles up_out = product(normed, n_, up, up_bias, layer);
    const std::int64_t values = n_ * config_.ffn_hidden;
    if (config_.family == Family::llama) {
      const Doubles gate_out = product(normed, n_, gate, std::nullopt, layer);
      reference::silu_multiply(gate_out.data(), up_out.data(), values, up_out.data());
    } else {
      reference::gelu(up_out.data(), values);
    }
    noise_.move(up_out, kActivationTerms);
    const Doubles down_out = product(up_out, n_, down, down_bias, layer);
    reference::add(down_out.data(), n_ * config_.hidden, x_.data());
  }

  const WeightSource& weights_;
  const ModelConfig& config_;
  DType dtype_;
  std::span<const std::int32_t> tokens_;
  const ReferenceRounding& rounding_;
  ArithmeticNoise noise_;
  std::int64_t n_;
  Doubles x_;                            // [n, hidden]
  std::vector<std::int32_t> positions_;  // [n]
};

}  // namespace

std::vector<double> reference_logits(const WeightSource& weights, std::span<const std::int32_t> tokens,
                                     std::int64_t rows, DType weight_dtype,
                                     const std::function<void(std::int64_t, std::int64_t)>& progress,
                                     const ReferenceRounding& rounding, std::uint64_t noise) {
  return ReferenceForward(weights, weight_dtype, tokens, rounding, noise).run(rows, progress);
}

}  // namespace kvlab
