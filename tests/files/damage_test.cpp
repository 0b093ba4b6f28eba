// Damaged files: cut at every byte and flipped at random. Each is refused or read; nothing crashes (run under ASan and
// UBSan too).
#include <random>

#include "model/files/checkpoint_files.h"
#include "model/files/safetensors.h"
#include "model/files/tensor_values.h"
#include "tests/files/test_files.h"

namespace kvlab::test {
namespace {

constexpr std::uint64_t kSeed = 20240607;
constexpr int kMutations = 3000;

std::vector<float> counting(std::size_t n) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(i);
  return out;
}

/// A llama of one layer, hidden 4, two heads, as GGUF.
std::string small_gguf() {
  GgufImage image;
  image.text("general.architecture", "llama").u32("llama.block_count", 1).u32("llama.context_length", 16);
  image.u32("llama.embedding_length", 4).u32("llama.feed_forward_length", 8).u32("llama.attention.head_count", 2);
  image.f32("llama.attention.layer_norm_rms_epsilon", 1e-5F)
      .list("words", kString, 2, gguf_string("a") + gguf_string("bc"));
  image.tensor("token_embd.weight", {4, 6}, counting(24)).tensor("output_norm.weight", {4}, counting(4));
  for (const char* name : {"attn_norm", "ffn_norm"}) {
    image.tensor("blk.0." + std::string(name) + ".weight", {4}, counting(4));
  }
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
    image.tensor("blk.0." + std::string(name) + ".weight", {4, 4}, counting(16));
  }
  image.tensor("blk.0.ffn_gate.weight", {4, 8}, counting(32)).tensor("blk.0.ffn_up.weight", {4, 8}, counting(32));
  return image.tensor("blk.0.ffn_down.weight", {8, 4}, counting(32)).bytes();
}

constexpr const char* kSmallConfig =
    R"({"model_type":"gpt2","n_embd":4,"n_layer":1,"n_head":2,"vocab_size":6,"n_positions":5,"eos_token_id":[0,2]})";

/// A gpt2 of one layer, hidden 4, as safetensors.
std::string small_safetensors() {
  struct Entry {
    const char* name;
    const char* shape;
    std::size_t n;
  };
  const std::vector<Entry> entries = {{"wte.weight", "[6,4]", 24},
                                      {"wpe.weight", "[5,4]", 20},
                                      {"ln_f.weight", "[4]", 4},
                                      {"ln_f.bias", "[4]", 4},
                                      {"h.0.ln_1.weight", "[4]", 4},
                                      {"h.0.ln_1.bias", "[4]", 4},
                                      {"h.0.ln_2.weight", "[4]", 4},
                                      {"h.0.ln_2.bias", "[4]", 4},
                                      {"h.0.attn.c_attn.weight", "[4,12]", 48},
                                      {"h.0.attn.c_attn.bias", "[12]", 12},
                                      {"h.0.attn.c_proj.weight", "[4,4]", 16},
                                      {"h.0.attn.c_proj.bias", "[4]", 4},
                                      {"h.0.mlp.c_fc.weight", "[4,16]", 64},
                                      {"h.0.mlp.c_fc.bias", "[16]", 16},
                                      {"h.0.mlp.c_proj.weight", "[16,4]", 64},
                                      {"h.0.mlp.c_proj.bias", "[4]", 4}};
  std::string header;
  std::string data;
  for (const Entry& entry : entries) {
    const std::string values = bytes_of_all(std::vector<std::uint16_t>(entry.n, 0x3f80));
    header += std::string(header.empty() ? "{" : ",") + '"' + entry.name + R"(":{"dtype":"BF16","shape":)" +
              entry.shape + R"(,"data_offsets":[)" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + values.size()) + "]}";
    data += values;
  }
  return safetensors_image(header + "}", data);
}

void read_all(const WeightSource& weights) {
  for (const WeightRole role : all_weight_roles()) {
    if (!has_role(weights.config(), role)) continue;
    for (std::int64_t layer = 0; layer < (is_layer_role(role) ? weights.config().n_layers : 1); ++layer) {
      weights.read(role, layer);
    }
  }
}

void read_tensors(const std::vector<TensorInfo>& tensors) {
  for (const TensorInfo& tensor : tensors) {
    std::int64_t n_elements = 1;
    for (const std::int64_t length : tensor.shape) n_elements *= length;
    if (!can_read_values(tensor.type)) continue;
    std::vector<float> values(static_cast<std::size_t>(n_elements));
    read_values(tensor, 0, values);
  }
}

/// Everything that a run would read of a GGUF file.
void load_gguf(const TemporaryFolder& folder, const std::string& bytes) {
  const std::shared_ptr<const GgufFile> file = GgufFile::open(folder.write("m.gguf", bytes));
  read_tensors(file->tensors());
  if (file->has("words")) file->strings("words");
  read_all(*weights_from_gguf(file, config_from_gguf(*file)));
}

void load_safetensors(const TemporaryFolder& folder, const std::string& bytes) {
  folder.write("model.safetensors", bytes);
  read_tensors(SafetensorsFolder::open(folder.path())->tensors());
  read_all(*weights_from_folder(folder.path(), config_from_json(folder.path() + "/config.json")));
}

void load_config(const TemporaryFolder& folder, const std::string& text) {
  read_all(*weights_from_folder(folder.path(), config_from_json(folder.write("config.json", text))));
}

/// Loads mutated copies; anything but success or InputError fails the test.
template <typename Load>
int refused_mutations(const std::string& valid, Load load) {
  std::mt19937_64 random(kSeed);
  int refused = 0;
  for (int i = 0; i < kMutations; ++i) {
    std::string bytes = valid;
    const std::uint64_t n_changes = 1 + random() % 4;
    for (std::uint64_t change = 0; change < n_changes; ++change) {
      // Numbers with all their bits set are the interesting ones, so half of the changes write one.
      const char value = static_cast<char>(random() % 2 == 0 ? 0xff : random() % 256);
      bytes[random() % bytes.size()] = value;
    }
    try {
      load(bytes);
    } catch (const InputError&) {
      ++refused;
    }
  }
  return refused;
}

TEST(Damage, TheSmallFilesAreValid) {
  const TemporaryFolder folder;
  folder.write("config.json", kSmallConfig);
  EXPECT_NO_THROW(load_gguf(folder, small_gguf()));
  EXPECT_NO_THROW(load_safetensors(folder, small_safetensors()));
}

TEST(Damage, AGgufFileCutAtAnyByteIsRefused) {
  const TemporaryFolder folder;
  const std::string bytes = small_gguf();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_THROW(load_gguf(folder, bytes.substr(0, length)), InputError) << length << " of " << bytes.size();
  }
}

TEST(Damage, ASafetensorsFileCutAtAnyByteIsRefused) {
  const TemporaryFolder folder;
  folder.write("config.json", kSmallConfig);
  const std::string bytes = small_safetensors();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_THROW(load_safetensors(folder, bytes.substr(0, length)), InputError) << length << " of " << bytes.size();
  }
}

TEST(Damage, FlippedBytesOfAGgufFileAreRefusedOrRead) {
  const TemporaryFolder folder;
  EXPECT_GT(refused_mutations(small_gguf(), [&](const std::string& bytes) { load_gguf(folder, bytes); }),
            kMutations / 4);
}

TEST(Damage, FlippedBytesOfASafetensorsFileAreRefusedOrRead) {
  const TemporaryFolder folder;
  folder.write("config.json", kSmallConfig);
  const auto load = [&](const std::string& bytes) { load_safetensors(folder, bytes); };
  EXPECT_GT(refused_mutations(small_safetensors(), load), kMutations / 4);
}

TEST(Damage, FlippedBytesOfAConfigAreRefusedOrRead) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", small_safetensors());
  EXPECT_GT(refused_mutations(kSmallConfig, [&](const std::string& text) { load_config(folder, text); }),
            kMutations / 4);
}

}  // namespace
}  // namespace kvlab::test
