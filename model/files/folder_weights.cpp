// Names and layouts of weights in a Hugging Face folder.
#include <fmt/format.h>

#include "kernels/error.h"
#include "model/files/checkpoint_files.h"
#include "model/files/file_weights.h"
#include "model/files/safetensors.h"

namespace kvlab {
namespace {

StoredWeight whole(std::string tensor) { return {std::move(tensor), 0, 0, false, 0}; }

/// A Conv1D stores [n_in, n_out].
StoredWeight conv1d(std::string tensor) { return {std::move(tensor), 0, 0, true, 0}; }

std::string llama_layer_suffix(WeightRole role) {
  switch (role) {
    case WeightRole::attention_norm:
      return "input_layernorm.weight";
    case WeightRole::q:
      return "self_attn.q_proj.weight";
    case WeightRole::k:
      return "self_attn.k_proj.weight";
    case WeightRole::v:
      return "self_attn.v_proj.weight";
    case WeightRole::q_bias:
      return "self_attn.q_proj.bias";
    case WeightRole::k_bias:
      return "self_attn.k_proj.bias";
    case WeightRole::v_bias:
      return "self_attn.v_proj.bias";
    case WeightRole::q_norm:
      return "self_attn.q_norm.weight";
    case WeightRole::k_norm:
      return "self_attn.k_norm.weight";
    case WeightRole::attention_output:
      return "self_attn.o_proj.weight";
    case WeightRole::attention_output_bias:
      return "self_attn.o_proj.bias";
    case WeightRole::mlp_norm:
      return "post_attention_layernorm.weight";
    case WeightRole::gate:
      return "mlp.gate_proj.weight";
    case WeightRole::up:
      return "mlp.up_proj.weight";
    case WeightRole::down:
      return "mlp.down_proj.weight";
    default:
      throw std::logic_error(fmt::format("no llama tensor for {}", role_name(role)));
  }
}

StoredWeight locate_llama(const std::string& prefix, WeightRole role, std::int64_t layer) {
  switch (role) {
    case WeightRole::token_embedding:
      return whole(prefix + "embed_tokens.weight");
    case WeightRole::final_norm:
      return whole(prefix + "norm.weight");
    case WeightRole::lm_head:
      return whole("lm_head.weight");
    default:
      return whole(fmt::format("{}layers.{}.{}", prefix, layer, llama_layer_suffix(role)));
  }
}

/// Part 0, 1 or 2 (Q, K, V) of the fused projection.
StoredWeight fused_part(std::string tensor, const ModelConfig& config, std::int64_t part, bool transposed) {
  return {std::move(tensor), part * config.hidden, 3 * config.hidden, transposed, 0};
}

StoredWeight locate_gpt2_layer(const ModelConfig& config, const std::string& layer, WeightRole role) {
  switch (role) {
    case WeightRole::attention_norm:
      return whole(layer + "ln_1.weight");
    case WeightRole::attention_norm_bias:
      return whole(layer + "ln_1.bias");
    case WeightRole::q:
      return fused_part(layer + "attn.c_attn.weight", config, 0, true);
    case WeightRole::k:
      return fused_part(layer + "attn.c_attn.weight", config, 1, true);
    case WeightRole::v:
      return fused_part(layer + "attn.c_attn.weight", config, 2, true);
    case WeightRole::q_bias:
      return fused_part(layer + "attn.c_attn.bias", config, 0, false);
    case WeightRole::k_bias:
      return fused_part(layer + "attn.c_attn.bias", config, 1, false);
    case WeightRole::v_bias:
      return fused_part(layer + "attn.c_attn.bias", config, 2, false);
    case WeightRole::attention_output:
      return conv1d(layer + "attn.c_proj.weight");
    case WeightRole::attention_output_bias:
      return whole(layer + "attn.c_proj.bias");
    case WeightRole::mlp_norm:
      return whole(layer + "ln_2.weight");
    case WeightRole::mlp_norm_bias:
      return whole(layer + "ln_2.bias");
    case WeightRole::up:
      return conv1d(layer + "mlp.c_fc.weight");
    case WeightRole::up_bias:
      return whole(layer + "mlp.c_fc.bias");
    case WeightRole::down:
      return conv1d(layer + "mlp.c_proj.weight");
    case WeightRole::down_bias:
      return whole(layer + "mlp.c_proj.bias");
    default:
      throw std::logic_error(fmt::format("no gpt2 tensor for {}", role_name(role)));
  }
}

StoredWeight locate_gpt2(const std::string& prefix, const ModelConfig& config, WeightRole role, std::int64_t layer) {
  switch (role) {
    case WeightRole::token_embedding:
      return whole(prefix + "wte.weight");
    case WeightRole::position_embedding:
      return whole(prefix + "wpe.weight");
    case WeightRole::final_norm:
      return whole(prefix + "ln_f.weight");
    case WeightRole::final_norm_bias:
      return whole(prefix + "ln_f.bias");
    case WeightRole::lm_head:
      return whole("lm_head.weight");
    default:
      return locate_gpt2_layer(config, fmt::format("{}h.{}.", prefix, layer), role);
  }
}

/// Buffers that some exporters write beside the weights, and the head of a tied model, which repeats the embedding.
bool is_ignorable(const ModelConfig& config, std::string_view name) {
  if (config.tied_embedding && name == "lm_head.weight") return true;
  if (config.family == Family::gpt2) return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  return name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace

std::unique_ptr<WeightSource> weights_from_folder(const std::string& folder, const ModelConfig& config) {
  const std::shared_ptr<const SafetensorsFolder> file = SafetensorsFolder::open(folder);
  const bool gpt2 = config.family == Family::gpt2;
  // A model saved with its head has its body under a prefix; one saved without has none.
  std::string prefix = gpt2 ? "transformer." : "model.";
  const std::string bare = gpt2 ? "wte.weight" : "embed_tokens.weight";
  if (file->find_tensor(bare) != nullptr) prefix.clear();
  auto weights = std::make_unique<FileWeights>(
      config, folder, [file](std::string_view name) { return file->find_tensor(name); },
      [gpt2, prefix](const ModelConfig& c, WeightRole role, std::int64_t layer) {
        return gpt2 ? locate_gpt2(prefix, c, role, layer) : locate_llama(prefix, role, layer);
      });
  refuse_unused_tensors(*weights, file->tensors(), folder,
                        [&config](std::string_view name) { return is_ignorable(config, name); });
  return weights;
}

}  // namespace kvlab
