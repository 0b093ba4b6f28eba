// GGUF metadata to ModelConfig. What metadata does not say (biases, tied embedding) is read off the tensors.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>

#include "kernels/error.h"
#include "model/files/byte_reader.h"
#include "model/files/checkpoint_files.h"
#include "model/files/tensor_values.h"

namespace kvlab {
namespace {

constexpr std::array<std::string_view, 4> kArchitectures = {"llama", "qwen2", "qwen3", "gpt2"};

[[noreturn]] void refuse(const GgufFile& file, std::string_view key, std::string_view message) {
  throw InputError(fmt::format("{}: {}: {}", file.path(), key, message));
}

/// Metadata under the architecture's own prefix.
class ArchitectureKeys {
 public:
  ArchitectureKeys(const GgufFile& file, const std::string& architecture) : file_(file), prefix_(architecture + ".") {}

  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  bool has(std::string_view name) const { return file_.has(key(name)); }
  std::int64_t integer(std::string_view name) const { return file_.integer(key(name)); }
  std::int64_t integer_or(std::string_view name, std::int64_t absent) const {
    return has(name) ? integer(name) : absent;
  }
  double number(std::string_view name) const { return file_.number(key(name)); }
  double number_or(std::string_view name, double absent) const { return has(name) ? number(name) : absent; }
  std::string_view string(std::string_view name) const { return file_.string(key(name)); }
  [[noreturn]] void refuse_key(std::string_view name, std::string_view message) const {
    refuse(file_, key(name), message);
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

std::int64_t vocabulary_rows(const GgufFile& file) {
  const TensorInfo* table = file.find_tensor("token_embd.weight");
  if (table == nullptr) throw InputError(fmt::format("{}: tensor 'token_embd.weight' is missing", file.path()));
  return table->shape.front();
}

/// hidden / n_heads, which must come out whole.
std::int64_t even_head_dimension(const ArchitectureKeys& keys, const ModelConfig& config) {
  if (config.n_heads <= 0 || config.hidden % config.n_heads != 0) {
    keys.refuse_key("attention.head_count",
                    fmt::format("{} heads do not divide the hidden size {}", config.n_heads, config.hidden));
  }
  return config.hidden / config.n_heads;
}

std::int64_t head_dimension(const ArchitectureKeys& keys, const ModelConfig& config) {
  if (!keys.has("attention.key_length")) return even_head_dimension(keys, config);
  const std::int64_t length = keys.integer("attention.key_length");
  if (keys.integer_or("attention.value_length", length) != length) {
    keys.refuse_key("attention.value_length", "values of another length than keys are not supported");
  }
  return length;
}

void read_rope_scaling(const ArchitectureKeys& keys, ModelConfig& config) {
  // Files from before the `scaling` keys have a single linear factor.
  const double old_factor = keys.number_or("rope.scale_linear", 1.0);
  const std::string_view type = keys.has("rope.scaling.type") ? keys.string("rope.scaling.type")
                                : old_factor == 1.0           ? "none"
                                                              : "linear";
  if (type == "none") return;
  if (type != "linear") {
    keys.refuse_key("rope.scaling.type", fmt::format("{} is not supported; supported: none, linear", in_quotes(type)));
  }
  config.rope_scaling.kind = RopeScalingKind::linear;
  config.rope_scaling.factor = keys.has("rope.scaling.factor") ? keys.number("rope.scaling.factor") : old_factor;
}

/// Llama 3 files give their scaling as one divisor for each frequency.
void read_frequency_divisors(const GgufFile& file, ModelConfig& config) {
  const TensorInfo* divisors = file.find_tensor("rope_freqs.weight");
  if (divisors == nullptr) return;
  if (divisors->shape != std::vector<std::int64_t>{config.head_dim / 2}) {
    throw InputError(fmt::format("{}: tensor 'rope_freqs.weight' has shape [{}], but half a head is {}", file.path(),
                                 fmt::join(divisors->shape, ", "), config.head_dim / 2));
  }
  std::vector<float> values(static_cast<std::size_t>(divisors->shape[0]));
  read_values(*divisors, 0, values);
  config.rope_scaling.frequency_divisors.assign(values.begin(), values.end());
}

void read_llama_like(const GgufFile& file, const ArchitectureKeys& keys, ModelConfig& config) {
  config.family = Family::llama;
  config.n_kv_heads = keys.integer_or("attention.head_count_kv", config.n_heads);
  config.head_dim = head_dimension(keys, config);
  config.norm_eps = keys.number("attention.layer_norm_rms_epsilon");
  config.rope_theta = keys.number_or("rope.freq_base", 10000.0);
  config.sliding_window = keys.integer_or("attention.sliding_window", 0);
  config.qk_norm = config.architecture == "qwen3";
  config.qkv_bias = file.find_tensor("blk.0.attn_q.bias") != nullptr;
  config.attention_output_bias = file.find_tensor("blk.0.attn_output.bias") != nullptr;
  if (keys.integer_or("rope.dimension_count", config.head_dim) != config.head_dim) {
    keys.refuse_key("rope.dimension_count", "rotating a part of each head is not supported");
  }
  if (keys.integer_or("expert_count", 0) != 0) keys.refuse_key("expert_count", "mixtures of experts are not supported");
  read_rope_scaling(keys, config);
  read_frequency_divisors(file, config);
}

void read_gpt2(const ArchitectureKeys& keys, ModelConfig& config) {
  config.family = Family::gpt2;
  config.n_kv_heads = keys.integer_or("attention.head_count_kv", config.n_heads);
  if (config.n_kv_heads != config.n_heads) {
    keys.refuse_key("attention.head_count_kv", "a gpt2 model has as many KV heads as query heads");
  }
  config.head_dim = even_head_dimension(keys, config);
  if (keys.integer_or("attention.key_length", config.head_dim) != config.head_dim) {
    keys.refuse_key("attention.key_length", "the heads of a gpt2 model together are as wide as the hidden size");
  }
  config.norm_eps = keys.number("attention.layer_norm_epsilon");
}

std::optional<std::int32_t> token_id(const GgufFile& file, const char* key) {
  if (!file.has(key)) return std::nullopt;
  const std::int64_t id = file.integer(key);
  // Writers put -1, as 32 bits, where there is no such token.
  if (id == -1 || id == std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) refuse(file, key, fmt::format("{} is no token id", id));
  return static_cast<std::int32_t>(id);
}

void read_token_ids(const GgufFile& file, ModelConfig& config) {
  config.bos_id = token_id(file, "tokenizer.ggml.bos_token_id");
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const auto id = token_id(file, key);
    if (id && std::find(config.eos_ids.begin(), config.eos_ids.end(), *id) == config.eos_ids.end()) {
      config.eos_ids.push_back(*id);
    }
  }
}

}  // namespace

ModelConfig config_from_gguf(const GgufFile& file) {
  ModelConfig config;
  config.name = std::filesystem::path(file.path()).stem().string();
  config.architecture = file.string("general.architecture");
  if (std::find(kArchitectures.begin(), kArchitectures.end(), config.architecture) == kArchitectures.end()) {
    refuse(file, "general.architecture",
           fmt::format("architecture {} is not supported; supported: {} (mistral comes as llama)",
                       in_quotes(config.architecture), fmt::join(kArchitectures, ", ")));
  }
  const ArchitectureKeys keys(file, config.architecture);
  config.n_layers = keys.integer("block_count");
  config.n_heads = keys.integer("attention.head_count");
  config.hidden = keys.integer("embedding_length");
  config.ffn_hidden = keys.integer("feed_forward_length");
  config.context_length = keys.integer("context_length");
  config.vocab_size = vocabulary_rows(file);
  config.tied_embedding = file.find_tensor("output.weight") == nullptr;
  if (config.architecture == "gpt2") {
    read_gpt2(keys, config);
  } else {
    read_llama_like(file, keys, config);
  }
  check_config(config, file.path());
  read_token_ids(file, config);
  return config;
}

}  // namespace kvlab
