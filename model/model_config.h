// What a checkpoint says of its shape. Filled from config.json, GGUF metadata or configs/models; read by everyone
// below.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvlab {

enum class Family { llama, gpt2 };  // RMSNorm, RoPE, SwiGLU / LayerNorm, learned positions, GELU

enum class RopeScalingKind { none, linear, llama3 };

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::none;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_context = 0;
  std::vector<double> frequency_divisors;  // [head_dim/2] when the file gives them (GGUF rope_freqs), else empty
};

struct ModelConfig {
  std::string name;          // file stem, folder name or configs/models name
  std::string architecture;  // llama | mistral | qwen2 | qwen3 | gpt2
  Family family = Family::llama;
  std::int64_t n_layers = 0;
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;  // an explicit value wins over hidden / n_heads everywhere
  std::int64_t hidden = 0;
  std::int64_t ffn_hidden = 0;
  std::int64_t vocab_size = 0;
  std::int64_t context_length = 0;
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  std::int64_t sliding_window = 0;     // 0: none
  bool qkv_bias = false;               // llama family only; gpt2 has every bias
  bool attention_output_bias = false;  // llama family only (attention_bias: true in config.json)
  bool qk_norm = false;
  bool tied_embedding = false;
  std::optional<std::int32_t> bos_id;
  std::vector<std::int32_t> eos_ids;
};

/// Throws InputError when shapes contradict each other (n_kv_heads not dividing n_heads, zeros, odd head_dim with
/// RoPE...). `where` names the file for the message.
void check_config(const ModelConfig& config, const std::string& where);

/// Parameters of the checkpoint: every tensor once, a tied embedding once.
std::int64_t parameter_count(const ModelConfig& config);

}  // namespace kvlab
