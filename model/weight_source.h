// Where weights come from: one interface over GGUF, safetensors, synthetic draws and re-headed copies of any of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/host_matrix.h"
#include "kernels/random.h"
#include "model/model_config.h"

namespace kvlab {

enum class WeightRole {
  token_embedding,      // [vocab_size, hidden]
  position_embedding,   // [context_length, hidden]            gpt2
  attention_norm,       // [1, hidden]
  attention_norm_bias,  // [1, hidden]                         gpt2
  q,
  k,
  v,  // [n_heads|n_kv_heads * head_dim, hidden]
  q_bias,
  k_bias,
  v_bias,  // [1, rows of the matrix]            gpt2, qwen2
  q_norm,
  k_norm,                 // [1, head_dim]                       qwen3
  attention_output,       // [hidden, n_heads * head_dim]
  attention_output_bias,  // [1, hidden]                         gpt2
  mlp_norm,               // [1, hidden]
  mlp_norm_bias,          // [1, hidden]                         gpt2
  gate,                   // [ffn_hidden, hidden]                llama family
  up,                     // [ffn_hidden, hidden]
  up_bias,                // [1, ffn_hidden]                     gpt2
  down,                   // [hidden, ffn_hidden]
  down_bias,              // [1, hidden]                         gpt2
  final_norm,             // [1, hidden]
  final_norm_bias,        // [1, hidden]                         gpt2
  lm_head,                // [vocab_size, hidden]                untied only
};

/// Every role, in the order of the enumeration.
std::span<const WeightRole> all_weight_roles();

std::string_view role_name(WeightRole role);

/// Whether a model of this configuration has the role (per layer for layer roles).
bool has_role(const ModelConfig& config, WeightRole role);
/// Whether the role exists once per layer.
bool is_layer_role(WeightRole role);

struct RoleShape {
  std::int64_t rows;
  std::int64_t cols;
};
RoleShape role_shape(const ModelConfig& config, WeightRole role);

/// Rows are output features, as in a Hugging Face Linear; Q and K rows are in half-split RoPE order whatever the
/// file's.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const ModelConfig& config() const = 0;
  /// Reads one weight as f32. `layer` is ignored for roles that are not per layer. Throws InputError naming file and
  /// tensor when it is missing or has another shape.
  virtual HostMatrix read(WeightRole role, std::int64_t layer) const = 0;
  /// The formula whose elements `read` gives, in its order; nothing when the values come from somewhere else.
  virtual std::optional<RandomValues> drawn(WeightRole /*role*/, std::int64_t /*layer*/) const { return std::nullopt; }
};

/// Seeded weights with activations of order one: the same values for the same configuration and seed on any machine.
std::unique_ptr<WeightSource> make_synthetic_weights(const ModelConfig& config, std::uint64_t seed);

/// The same checkpoint with `n_kv_heads` KV heads: replicated when more (exact), mean-pooled when fewer.
/// Throws InputError unless n_kv_heads divides n_heads and is a multiple or a divisor of the source's own number.
std::unique_ptr<WeightSource> rehead(std::shared_ptr<const WeightSource> source, std::int64_t n_kv_heads);

}  // namespace kvlab
