// Checks a configuration against itself and counts its parameters. Where the numbers came from is the readers'
// business.
#include "model/model_config.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "kernels/error.h"
#include "model/weight_source.h"

namespace kvlab {
namespace {

// No real model comes near these limits. Below them no count of parameters, bytes or FLOPs of a matrix overflows 64
// bits: 2048 layers of matrices of 2^24 x 2^24 elements stay under 2^63.
constexpr std::int64_t kMostLayers = 2048;
constexpr std::int64_t kWidest = std::int64_t{1} << 24;
constexpr std::int64_t kLongestContext = (std::int64_t{1} << 31) - 1;  // positions are 32-bit

void check_range(const std::string& where, const char* what, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    throw InputError(fmt::format("{}: {} is {}, but must be {} ... {}", where, what, value, low, high));
  }
}

void check_number(const std::string& where, const char* what, double value, bool zero_allowed) {
  const bool ok = std::isfinite(value) && (zero_allowed ? value >= 0.0 : value > 0.0);
  if (!ok) {
    throw InputError(fmt::format("{}: {} is {}, but must be finite and {} 0", where, what, value,
                                 zero_allowed ? "at least" : "above"));
  }
}

void check_shape(const ModelConfig& config, const std::string& where) {
  check_range(where, "the number of layers", config.n_layers, 1, kMostLayers);
  check_range(where, "the number of heads", config.n_heads, 1, kWidest);
  check_range(where, "the number of KV heads", config.n_kv_heads, 1, kWidest);
  check_range(where, "the head dimension", config.head_dim, 1, kWidest);
  check_range(where, "the hidden size", config.hidden, 1, kWidest);
  check_range(where, "the MLP size", config.ffn_hidden, 1, kWidest);
  check_range(where, "the vocabulary size", config.vocab_size, 1, kWidest);
  check_range(where, "the context length", config.context_length, 1, kLongestContext);
  check_range(where, "the sliding window", config.sliding_window, 0, kLongestContext);
  check_range(where, "n_heads x head_dim", config.n_heads * config.head_dim, 1, kWidest);
  if (config.n_heads % config.n_kv_heads != 0) {
    throw InputError(fmt::format("{}: {} KV heads do not divide {} query heads; each KV head must serve equally many",
                                 where, config.n_kv_heads, config.n_heads));
  }
}

void check_rope(const ModelConfig& config, const std::string& where) {
  if (config.head_dim % 2 != 0) {
    throw InputError(fmt::format("{}: the head dimension is {}, but RoPE rotates pairs and needs an even one", where,
                                 config.head_dim));
  }
  check_number(where, "the RoPE base", config.rope_theta, false);
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind != RopeScalingKind::none) check_number(where, "the RoPE scaling factor", scaling.factor, false);
  if (scaling.kind == RopeScalingKind::llama3) {
    check_number(where, "the RoPE low_freq_factor", scaling.low_freq_factor, false);
    check_number(where, "the RoPE high_freq_factor", scaling.high_freq_factor, false);
    if (!(scaling.high_freq_factor > scaling.low_freq_factor)) {
      throw InputError(fmt::format("{}: the RoPE high_freq_factor ({}) must be above low_freq_factor ({})", where,
                                   scaling.high_freq_factor, scaling.low_freq_factor));
    }
    check_range(where, "the RoPE original_max_position_embeddings", scaling.original_context, 1, kLongestContext);
  }
  if (scaling.frequency_divisors.empty()) return;
  if (std::cmp_not_equal(scaling.frequency_divisors.size(), config.head_dim / 2)) {
    throw InputError(fmt::format("{}: {} RoPE frequency divisors for a head dimension of {}; there must be {}", where,
                                 scaling.frequency_divisors.size(), config.head_dim, config.head_dim / 2));
  }
  for (const double divisor : scaling.frequency_divisors) {
    check_number(where, "a RoPE frequency divisor", divisor, false);
  }
}

}  // namespace

void check_config(const ModelConfig& config, const std::string& where) {
  check_shape(config, where);
  check_number(where, "the norm's epsilon", config.norm_eps, true);
  if (config.family == Family::llama) check_rope(config, where);
}

std::int64_t parameter_count(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const WeightRole role : all_weight_roles()) {
    if (!has_role(config, role)) continue;
    const RoleShape shape = role_shape(config, role);
    count += shape.rows * shape.cols * (is_layer_role(role) ? config.n_layers : 1);
  }
  return count;
}

}  // namespace kvlab
