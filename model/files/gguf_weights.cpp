// Names and layouts of weights in a GGUF file.
#include <fmt/format.h>

#include "kernels/error.h"
#include "model/files/checkpoint_files.h"
#include "model/files/file_weights.h"

namespace kvlab {
namespace {

std::string layer_suffix(WeightRole role) {
  switch (role) {
    case WeightRole::attention_norm:
      return "attn_norm.weight";
    case WeightRole::attention_norm_bias:
      return "attn_norm.bias";
    case WeightRole::q:
      return "attn_q.weight";
    case WeightRole::k:
      return "attn_k.weight";
    case WeightRole::v:
      return "attn_v.weight";
    case WeightRole::q_bias:
      return "attn_q.bias";
    case WeightRole::k_bias:
      return "attn_k.bias";
    case WeightRole::v_bias:
      return "attn_v.bias";
    case WeightRole::q_norm:
      return "attn_q_norm.weight";
    case WeightRole::k_norm:
      return "attn_k_norm.weight";
    case WeightRole::attention_output:
      return "attn_output.weight";
    case WeightRole::attention_output_bias:
      return "attn_output.bias";
    case WeightRole::mlp_norm:
      return "ffn_norm.weight";
    case WeightRole::mlp_norm_bias:
      return "ffn_norm.bias";
    case WeightRole::gate:
      return "ffn_gate.weight";
    case WeightRole::up:
      return "ffn_up.weight";
    case WeightRole::up_bias:
      return "ffn_up.bias";
    case WeightRole::down:
      return "ffn_down.weight";
    case WeightRole::down_bias:
      return "ffn_down.bias";
    default:
      throw std::logic_error(fmt::format("no layer tensor for {}", role_name(role)));
  }
}

std::string tensor_name(WeightRole role, std::int64_t layer) {
  switch (role) {
    case WeightRole::token_embedding:
      return "token_embd.weight";
    case WeightRole::position_embedding:
      return "position_embd.weight";
    case WeightRole::final_norm:
      return "output_norm.weight";
    case WeightRole::final_norm_bias:
      return "output_norm.bias";
    case WeightRole::lm_head:
      return "output.weight";
    default:
      return fmt::format("blk.{}.{}", layer, layer_suffix(role));
  }
}

/// gpt2 keeps Q, K and V in one tensor of rows (the converter has already transposed the Conv1D matrices).
StoredWeight locate_gpt2(const ModelConfig& config, WeightRole role, std::int64_t layer) {
  const auto part = [&](std::int64_t index, const char* ending) {
    return StoredWeight{fmt::format("blk.{}.attn_qkv.{}", layer, ending), index * config.hidden, 3 * config.hidden,
                        false, 0};
  };
  switch (role) {
    case WeightRole::q:
      return part(0, "weight");
    case WeightRole::k:
      return part(1, "weight");
    case WeightRole::v:
      return part(2, "weight");
    case WeightRole::q_bias:
      return part(0, "bias");
    case WeightRole::k_bias:
      return part(1, "bias");
    case WeightRole::v_bias:
      return part(2, "bias");
    default:
      return {tensor_name(role, layer), 0, 0, false, 0};
  }
}

/// The converter permutes the rows of Q and K (weights and biases) for the architecture "llama" and for no other of
/// ours.
StoredWeight locate_llama(const ModelConfig& config, WeightRole role, std::int64_t layer) {
  const bool rotated =
      role == WeightRole::q || role == WeightRole::k || role == WeightRole::q_bias || role == WeightRole::k_bias;
  const bool interleaved = rotated && config.architecture == "llama";
  return {tensor_name(role, layer), 0, 0, false, interleaved ? config.head_dim : 0};
}

}  // namespace

std::unique_ptr<WeightSource> weights_from_gguf(std::shared_ptr<const GgufFile> file, const ModelConfig& config) {
  auto weights = std::make_unique<FileWeights>(
      config, file->path(), [file](std::string_view name) { return file->find_tensor(name); },
      [](const ModelConfig& c, WeightRole role, std::int64_t layer) {
        return c.family == Family::gpt2 ? locate_gpt2(c, role, layer) : locate_llama(c, role, layer);
      });
  refuse_unused_tensors(*weights, file->tensors(), file->path(),
                        [](std::string_view name) { return name == "rope_freqs.weight"; });
  return weights;
}

}  // namespace kvlab
