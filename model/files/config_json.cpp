// config.json (Hugging Face keys) to ModelConfig. Absent keys get what the transformers library gives them for the
// family; what kvlab cannot compute is refused by name, never ignored.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "kernels/error.h"
#include "model/files/byte_reader.h"
#include "model/files/checkpoint_files.h"
#include "model/files/mapped_file.h"
#include "model/files/strict_json.h"

namespace kvlab {
namespace {

constexpr int kConfigDepth = 32;

/// What a llama-like architecture has where its config.json is silent.
struct LlamaLikeDefaults {
  std::string_view architecture;
  std::int64_t n_kv_heads;  // 0: as many as query heads
  std::int64_t head_dim;    // 0: hidden / n_heads
  std::int64_t context_length;
  std::int64_t sliding_window;
  std::optional<std::int64_t> bos_id;
  std::optional<std::int64_t> eos_id;
};

constexpr std::array kLlamaLike = {
    LlamaLikeDefaults{"llama", 0, 0, 2048, 0, 1, 2},
    LlamaLikeDefaults{"mistral", 8, 0, 131072, 4096, 1, 2},
    LlamaLikeDefaults{"qwen2", 32, 0, 32768, 4096, std::nullopt, std::nullopt},
    LlamaLikeDefaults{"qwen3", 32, 128, 32768, 4096, std::nullopt, std::nullopt},
};

// Keys that say nothing about the arithmetic of a forward pass, and are no surprise.
constexpr std::array<std::string_view, 22> kSilentKeys = {"architectures",
                                                          "torch_dtype",
                                                          "dtype",
                                                          "transformers_version",
                                                          "_name_or_path",
                                                          "initializer_range",
                                                          "use_cache",
                                                          "attention_dropout",
                                                          "attn_pdrop",
                                                          "embd_pdrop",
                                                          "resid_pdrop",
                                                          "pad_token_id",
                                                          "pretraining_tp",
                                                          "n_ctx",
                                                          "rope_interleaved",
                                                          "is_llama_config",
                                                          "task_specific_params",
                                                          "summary_type",
                                                          "summary_use_proj",
                                                          "summary_activation",
                                                          "summary_first_dropout",
                                                          "summary_proj_to_labels"};

std::string model_name(const std::string& path) {
  const std::filesystem::path file = std::filesystem::absolute(path);
  return file.filename() == "config.json" ? file.parent_path().filename().string() : file.stem().string();
}

void refuse_true(const JsonObject& json, const char* key) {
  if (json.boolean_or(key, false)) json.refuse(key, "true is not supported");
}

void require_value(const JsonObject& json, const char* key, const std::string& absent,
                   std::initializer_list<std::string_view> supported) {
  const std::string value = json.string_or(key, absent);
  if (std::find(supported.begin(), supported.end(), value) != supported.end()) return;
  json.refuse(key, fmt::format("{} is not supported; supported: {}", in_quotes(value), fmt::join(supported, ", ")));
}

std::int32_t token_id(const JsonObject& json, const char* key, std::int64_t id) {
  if (id < 0 || id > INT32_MAX) json.refuse(key, fmt::format("{} is no token id", id));
  return static_cast<std::int32_t>(id);
}

void read_token_ids(const JsonObject& json, std::optional<std::int64_t> bos, std::optional<std::int64_t> eos,
                    ModelConfig& config) {
  const auto bos_id = json.nullable_integer("bos_token_id", bos);
  if (bos_id) config.bos_id = token_id(json, "bos_token_id", *bos_id);
  if (!json.contains("eos_token_id") && eos) config.eos_ids.push_back(token_id(json, "eos_token_id", *eos));
  for (const std::int64_t id : json.integers("eos_token_id")) {
    config.eos_ids.push_back(token_id(json, "eos_token_id", id));
  }
}

std::int64_t divide_evenly(const JsonObject& json, const char* key, std::int64_t width, std::int64_t n_heads) {
  if (n_heads <= 0 || width % n_heads != 0) {
    json.refuse(key, fmt::format("{} heads do not divide the hidden size {}", n_heads, width));
  }
  return width / n_heads;
}

/// The object that describes RoPE scaling: `rope_parameters` in newer files, `rope_scaling` in older ones.
std::optional<JsonObject> rope_description(const JsonObject& json) {
  std::optional<JsonObject> newer = json.object("rope_parameters");
  std::optional<JsonObject> older = json.object("rope_scaling");
  if (newer && older) json.refuse("rope_scaling", "is given beside rope_parameters; keep one of them");
  return newer ? newer : older;
}

void read_rope(const JsonObject& json, ModelConfig& config) {
  config.rope_theta = json.number_or("rope_theta", 10000.0);
  const std::optional<JsonObject> rope = rope_description(json);
  if (json.number_or("partial_rotary_factor", 1.0) != 1.0) json.refuse("partial_rotary_factor", "only 1 is supported");
  if (!rope) return;
  config.rope_theta = rope->number_or("rope_theta", config.rope_theta);
  if (rope->number_or("partial_rotary_factor", 1.0) != 1.0)
    rope->refuse("partial_rotary_factor", "only 1 is supported");
  const char* key = rope->contains("rope_type") || !rope->contains("type") ? "rope_type" : "type";
  const std::string type = rope->string(key);
  RopeScaling& scaling = config.rope_scaling;
  if (type == "default") return;
  if (type != "linear" && type != "llama3") {
    rope->refuse(key, fmt::format("{} is not supported; supported: default, linear, llama3", in_quotes(type)));
  }
  scaling.factor = rope->number("factor");
  scaling.kind = RopeScalingKind::linear;
  if (type == "linear") return;
  scaling.kind = RopeScalingKind::llama3;
  scaling.low_freq_factor = rope->number("low_freq_factor");
  scaling.high_freq_factor = rope->number("high_freq_factor");
  scaling.original_context = rope->integer("original_max_position_embeddings");
}

/// Which layers slide, when the file lists them: nothing when it does not, else all (true) or none (false).
std::optional<bool> layers_that_slide(const JsonObject& json, std::int64_t n_layers) {
  if (!json.contains("layer_types") || json.is_null("layer_types")) return std::nullopt;
  const std::vector<std::string> types = json.strings("layer_types");
  const auto sliding = std::count(types.begin(), types.end(), "sliding_attention");
  const auto full = std::count(types.begin(), types.end(), "full_attention");
  if (sliding + full != n_layers || std::cmp_not_equal(types.size(), n_layers)) {
    json.refuse("layer_types", "must give full_attention or sliding_attention for each layer");
  }
  if (sliding != 0 && full != 0) json.refuse("layer_types", "windows in some layers only are not supported");
  return sliding != 0;
}

void read_sliding_window(const JsonObject& json, const LlamaLikeDefaults& defaults, ModelConfig& config) {
  const bool qwen = config.architecture == "qwen2" || config.architecture == "qwen3";
  if (!qwen && config.architecture != "mistral") return;
  const std::int64_t window = json.nullable_integer("sliding_window", defaults.sliding_window).value_or(0);
  const std::optional<bool> listed = layers_that_slide(json, config.n_layers);
  const std::int64_t first_sliding = qwen ? json.integer_or("max_window_layers", 28) : 0;
  if (qwen && !json.boolean_or("use_sliding_window", false)) return;
  if (listed ? !*listed : first_sliding >= config.n_layers) return;
  if (!listed && first_sliding > 0) {
    json.refuse("max_window_layers",
                fmt::format("a window in the layers from {} on only is not supported", first_sliding));
  }
  config.sliding_window = window;
}

void read_biases_and_norms(const JsonObject& json, ModelConfig& config) {
  refuse_true(json, "mlp_bias");
  config.qk_norm = config.architecture == "qwen3";
  if (config.architecture == "qwen2") {
    config.qkv_bias = true;
  } else if (config.architecture != "mistral") {
    config.qkv_bias = config.attention_output_bias = json.boolean_or("attention_bias", false);
  }
}

void read_llama_like(const JsonObject& json, const LlamaLikeDefaults& defaults, ModelConfig& config) {
  config.family = Family::llama;
  config.hidden = json.integer("hidden_size");
  config.ffn_hidden = json.integer("intermediate_size");
  config.n_layers = json.integer("num_hidden_layers");
  config.n_heads = json.integer("num_attention_heads");
  config.vocab_size = json.integer("vocab_size");
  const std::int64_t usual_kv_heads = defaults.n_kv_heads == 0 ? config.n_heads : defaults.n_kv_heads;
  config.n_kv_heads = json.nullable_integer("num_key_value_heads", usual_kv_heads).value_or(config.n_heads);
  const auto usual_head_dim = defaults.head_dim == 0 ? std::nullopt : std::optional(defaults.head_dim);
  const auto head_dim = json.nullable_integer("head_dim", usual_head_dim);
  config.head_dim = head_dim ? *head_dim : divide_evenly(json, "num_attention_heads", config.hidden, config.n_heads);
  config.context_length = json.integer_or("max_position_embeddings", defaults.context_length);
  config.norm_eps = json.number_or("rms_norm_eps", 1e-6);
  config.tied_embedding = json.boolean_or("tie_word_embeddings", false);
  require_value(json, "hidden_act", "silu", {"silu", "swish"});
  read_rope(json, config);
  read_sliding_window(json, defaults, config);
  read_biases_and_norms(json, config);
  read_token_ids(json, defaults.bos_id, defaults.eos_id, config);
}

void read_gpt2(const JsonObject& json, ModelConfig& config) {
  config.family = Family::gpt2;
  config.hidden = json.integer("n_embd");
  config.n_layers = json.integer("n_layer");
  config.n_heads = config.n_kv_heads = json.integer("n_head");
  config.vocab_size = json.integer("vocab_size");
  config.head_dim = divide_evenly(json, "n_head", config.hidden, config.n_heads);
  config.ffn_hidden = json.nullable_integer("n_inner", std::nullopt).value_or(4 * config.hidden);
  config.context_length = json.integer_or("n_positions", 1024);
  config.norm_eps = json.number_or("layer_norm_epsilon", 1e-5);
  config.tied_embedding = json.boolean_or("tie_word_embeddings", true);
  require_value(json, "activation_function", "gelu_new", {"gelu_new", "gelu_pytorch_tanh"});
  if (!json.boolean_or("scale_attn_weights", true)) json.refuse("scale_attn_weights", "false is not supported");
  refuse_true(json, "scale_attn_by_inverse_layer_idx");
  refuse_true(json, "add_cross_attention");
  json.boolean_or("reorder_and_upcast_attn", false);  // a matter of precision only
  read_token_ids(json, 50256, 50256, config);
}

void note_unread_keys(const JsonObject& json, std::vector<std::string>& notes) {
  std::vector<std::string> surprising;
  for (const std::string& key : json.unread_keys()) {
    if (std::find(kSilentKeys.begin(), kSilentKeys.end(), key) == kSilentKeys.end())
      surprising.push_back(in_quotes(key));
  }
  if (!surprising.empty()) {
    notes.push_back(fmt::format("{}: ignored keys: {}", json.where(), fmt::join(surprising, ", ")));
  }
}

}  // namespace

ModelConfig config_from_json(const std::string& path, std::vector<std::string>* notes) {
  const MappedFile file(path);
  const JsonObject json(parse_strict_json(file.text(), path, kConfigDepth), path);
  ModelConfig config;
  config.name = model_name(path);
  config.architecture = json.string("model_type");
  if (json.object("quantization_config")) {
    json.refuse("quantization_config", "quantised safetensors are not supported; take a GGUF file of the model");
  }
  const auto* like = std::find_if(kLlamaLike.begin(), kLlamaLike.end(), [&](const LlamaLikeDefaults& defaults) {
    return defaults.architecture == config.architecture;
  });
  if (like != kLlamaLike.end()) {
    read_llama_like(json, *like, config);
  } else if (config.architecture == "gpt2") {
    read_gpt2(json, config);
  } else {
    json.refuse("model_type",
                fmt::format("architecture {} is not supported; supported: llama, mistral, qwen2, qwen3, gpt2",
                            in_quotes(config.architecture)));
  }
  check_config(config, path);
  if (notes != nullptr) note_unread_keys(json, *notes);
  return config;
}

}  // namespace kvlab
