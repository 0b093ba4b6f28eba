// Written from the description of the conversion, apart from the reader it tests: it works on the folder's own tensors
// and names, not on weight roles.
#include "tests/files/gguf_of_folder.h"

#include <map>
#include <nlohmann/json.hpp>

#include "model/files/safetensors.h"
#include "model/files/tensor_values.h"

namespace kvlab::test {
namespace {

using nlohmann::json;

const std::map<std::string, std::string> kLlamaNames = {
    {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},       {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},       {"lm_head", "output"},
};

const std::map<std::string, std::string> kGpt2Names = {
    {"ln_1", "attn_norm"},          {"ln_2", "ffn_norm"},     {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"}, {"mlp.c_fc", "ffn_up"},   {"mlp.c_proj", "ffn_down"},
    {"wte", "token_embd"},          {"wpe", "position_embd"}, {"ln_f", "output_norm"},
};

/// "model.layers.2.mlp.up_proj.weight" and "h.2.mlp.c_fc.weight" become "blk.2.ffn_up.weight".
std::string converted_name(const std::string& name, const std::map<std::string, std::string>& names) {
  std::string layer;
  std::string rest = name;
  for (const std::string prefix : {"model.layers.", "h."}) {
    if (!name.starts_with(prefix)) continue;
    const std::size_t dot = name.find('.', prefix.size());
    layer = "blk." + name.substr(prefix.size(), dot - prefix.size()) + ".";
    rest = name.substr(dot + 1);
  }
  const std::size_t ending = rest.rfind('.');  // ".weight" or ".bias"
  return layer + names.at(rest.substr(0, ending)) + rest.substr(ending);
}

/// Row j half + i of a head, with j the half it is in, goes to row 2 i + j.
std::vector<float> interleaved(const std::vector<float>& values, std::size_t head_dim, std::size_t width) {
  std::vector<float> out(values.size());
  for (std::size_t row = 0; row < values.size() / width; ++row) {
    const std::size_t head = row / head_dim;
    const std::size_t i = row % head_dim % (head_dim / 2);
    const std::size_t j = row % head_dim / (head_dim / 2);
    const std::size_t target = head * head_dim + 2 * i + j;
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(row * width), width,
                out.begin() + static_cast<std::ptrdiff_t>(target * width));
  }
  return out;
}

std::vector<float> transposed(const std::vector<float>& values, std::size_t rows, std::size_t cols) {
  std::vector<float> out(values.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) out[c * rows + r] = values[r * cols + c];
  }
  return out;
}

void add_llama_keys(const json& config, GgufImage& image) {
  const std::string arch = config["model_type"];
  image.u32(arch + ".block_count", config["num_hidden_layers"]).u32(arch + ".embedding_length", config["hidden_size"]);
  image.u32(arch + ".feed_forward_length", config["intermediate_size"]);
  image.u32(arch + ".context_length", config["max_position_embeddings"]);
  image.u32(arch + ".attention.head_count", config["num_attention_heads"]);
  image.u32(arch + ".attention.head_count_kv", config["num_key_value_heads"]);
  image.f32(arch + ".attention.layer_norm_rms_epsilon", config["rms_norm_eps"]);
  image.f32(arch + ".rope.freq_base", config["rope_theta"]);
  if (config.contains("head_dim")) {
    image.u32(arch + ".attention.key_length", config["head_dim"])
        .u32(arch + ".attention.value_length", config["head_dim"]);
  }
}

void add_gpt2_keys(const json& config, GgufImage& image) {
  image.u32("gpt2.block_count", config["n_layer"]).u32("gpt2.embedding_length", config["n_embd"]);
  image.u32("gpt2.feed_forward_length", 4 * config["n_embd"].get<std::uint32_t>());
  image.u32("gpt2.context_length", config["n_positions"]).u32("gpt2.attention.head_count", config["n_head"]);
  image.f32("gpt2.attention.layer_norm_epsilon", config["layer_norm_epsilon"]);
}

std::size_t head_dim_of(const json& config) {
  const std::size_t even = config["hidden_size"].get<std::size_t>() / config["num_attention_heads"].get<std::size_t>();
  return config.value("head_dim", even);
}

}  // namespace

GgufImage gguf_image_of_folder(const std::string& folder, RowOrder order) {
  const json config = json::parse(read_bytes(folder + "/config.json"));
  const bool gpt2 = config["model_type"] == "gpt2";
  GgufImage image;
  image.text("general.architecture", config["model_type"]);
  gpt2 ? add_gpt2_keys(config, image) : add_llama_keys(config, image);
  const auto file = SafetensorsFolder::open(folder);
  for (const TensorInfo& tensor : file->tensors()) {
    std::vector<std::uint64_t> dims(tensor.shape.rbegin(), tensor.shape.rend());
    const std::size_t width = dims.size() == 2 ? dims[0] : 1;
    const std::size_t rows = static_cast<std::size_t>(tensor.shape[0]);
    std::vector<float> values(rows * width);
    read_values(tensor, 0, values);
    const bool rotated =
        tensor.name.find(".q_proj.") != std::string::npos || tensor.name.find(".k_proj.") != std::string::npos;
    if (rotated && order == RowOrder::converted && config["model_type"] == "llama") {
      values = interleaved(values, head_dim_of(config), width);
    }
    const bool conv1d = tensor.name.find(".c_") != std::string::npos && dims.size() == 2;
    if (gpt2 && conv1d) {
      values = transposed(values, rows, width);
      std::swap(dims[0], dims[1]);
    }
    image.tensor(converted_name(tensor.name, gpt2 ? kGpt2Names : kLlamaNames), dims, values);
  }
  return image;
}

}  // namespace kvlab::test
