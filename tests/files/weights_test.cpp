// Weights by role: from Hugging Face folders and from GGUF files, with each format's names, layouts and row orders.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "model/files/checkpoint_files.h"
#include "model/files/safetensors.h"
#include "model/files/tensor_values.h"
#include "tests/files/gguf_of_folder.h"
#include "tests/files/test_files.h"

namespace kvlab::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<WeightSource> golden_weights(const std::string& name) {
  const std::string folder = golden_folder(name);
  return weights_from_folder(folder, config_from_json(folder + "/config.json"));
}

std::vector<float> stored_values(const std::string& folder, const std::string& name) {
  const auto file = SafetensorsFolder::open(folder);
  const TensorInfo* tensor = file->find_tensor(name);
  if (tensor == nullptr) throw std::runtime_error("no tensor " + name);
  std::int64_t n_elements = 1;
  for (const std::int64_t length : tensor->shape) n_elements *= length;
  std::vector<float> values(static_cast<std::size_t>(n_elements));
  read_values(*tensor, 0, values);
  return values;
}

/// Compares every weight of two sources, bit for bit; returns the roles that differ somewhere.
std::vector<std::string> differing_roles(const WeightSource& a, const WeightSource& b) {
  std::vector<std::string> out;
  for (const WeightRole role : all_weight_roles()) {
    if (!has_role(a.config(), role)) continue;
    const std::int64_t n_layers = is_layer_role(role) ? a.config().n_layers : 1;
    bool same = true;
    for (std::int64_t layer = 0; layer < n_layers; ++layer) {
      const HostMatrix x = a.read(role, layer);
      const HostMatrix y = b.read(role, layer);
      same = same && x.rows == y.rows && x.cols == y.cols && x.values == y.values;
    }
    if (!same) out.emplace_back(role_name(role));
  }
  return out;
}

class GoldenFolder : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenFolder, EveryRoleIsReadInItsShape) {
  const auto weights = golden_weights(GetParam());
  for (const WeightRole role : all_weight_roles()) {
    if (!has_role(weights->config(), role)) {
      EXPECT_THROW(weights->read(role, 0), InputError) << role_name(role);
      continue;
    }
    const HostMatrix matrix = weights->read(role, 0);
    const RoleShape shape = role_shape(weights->config(), role);
    EXPECT_EQ(matrix.rows, shape.rows) << role_name(role);
    EXPECT_EQ(matrix.cols, shape.cols) << role_name(role);
  }
}

TEST_P(GoldenFolder, TheSameModelAsGgufGivesTheSameWeights) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", gguf_of_folder(golden_folder(GetParam()), RowOrder::converted));
  const std::shared_ptr<const GgufFile> file = GgufFile::open(path);
  const ModelConfig config = config_from_gguf(*file);
  const auto expected = golden_weights(GetParam());
  EXPECT_EQ(parameter_count(config), parameter_count(expected->config()));
  EXPECT_EQ(config.tied_embedding, expected->config().tied_embedding);
  const auto weights = weights_from_gguf(file, config);
  EXPECT_THAT(differing_roles(*expected, *weights), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Tiny, GoldenFolder,
                         ::testing::Values("gpt2", "llama-gqa", "llama-mha", "llama-mqa-tied", "llama-rope3",
                                           "qwen2-gqa", "qwen3-gqa"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(GgufWeights, TheOtherRowOrderGivesOtherQAndK) {
  const TemporaryFolder folder;
  const auto expected = golden_weights("llama-gqa");
  const std::string path = folder.write("m.gguf", gguf_of_folder(golden_folder("llama-gqa"), RowOrder::untouched));
  const std::shared_ptr<const GgufFile> file = GgufFile::open(path);
  EXPECT_THAT(differing_roles(*expected, *weights_from_gguf(file, config_from_gguf(*file))),
              ::testing::ElementsAre("q", "k"));
}

TEST(FolderWeights, LlamaMatricesAreAsStored) {
  const std::string folder = golden_folder("llama-gqa");
  const auto weights = golden_weights("llama-gqa");
  EXPECT_EQ(weights->read(WeightRole::k, 2).values, stored_values(folder, "model.layers.2.self_attn.k_proj.weight"));
  EXPECT_EQ(weights->read(WeightRole::lm_head, 0).values, stored_values(folder, "lm_head.weight"));
  EXPECT_EQ(weights->read(WeightRole::mlp_norm, 1).values,
            stored_values(folder, "model.layers.1.post_attention_layernorm.weight"));
}

TEST(FolderWeights, Gpt2MatricesAreTransposedAndSplit) {
  const std::string folder = golden_folder("gpt2");
  const auto weights = golden_weights("gpt2");
  const std::vector<float> fused = stored_values(folder, "h.1.attn.c_attn.weight");  // [64, 192]
  const std::vector<float> fused_bias = stored_values(folder, "h.1.attn.c_attn.bias");
  const std::vector<float> up = stored_values(folder, "h.1.mlp.c_fc.weight");  // [64, 256]
  const std::vector<WeightRole> matrices = {WeightRole::q, WeightRole::k, WeightRole::v};
  const std::vector<WeightRole> biases = {WeightRole::q_bias, WeightRole::k_bias, WeightRole::v_bias};
  for (std::size_t part = 0; part < 3; ++part) {
    const HostMatrix matrix = weights->read(matrices[part], 1);
    const HostMatrix bias = weights->read(biases[part], 1);
    for (std::size_t out = 0; out < 64; ++out) {
      ASSERT_EQ(bias.values[out], fused_bias[part * 64 + out]);
      for (std::size_t in = 0; in < 64; ++in) {
        ASSERT_EQ(matrix.values[out * 64 + in], fused[in * 192 + part * 64 + out]) << part << " " << out << " " << in;
      }
    }
  }
  const HostMatrix matrix = weights->read(WeightRole::up, 1);
  for (std::size_t out = 0; out < 256; ++out) {
    for (std::size_t in = 0; in < 64; ++in) ASSERT_EQ(matrix.values[out * 64 + in], up[in * 256 + out]);
  }
}

/// A copy of a golden checkpoint whose tensors can be renamed, dropped and added.
class EditedCheckpoint {
 public:
  explicit EditedCheckpoint(const std::string& golden) {
    config_ = json::parse(read_bytes(golden_folder(golden) + "/config.json"));
    const std::string bytes = read_bytes(golden_folder(golden) + "/model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    const json header = json::parse(bytes.substr(8, length));
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const std::size_t begin = entry["data_offsets"][0];
      const std::size_t end = entry["data_offsets"][1];
      tensors_[name] = {entry["dtype"], entry["shape"], bytes.substr(8 + length + begin, end - begin)};
    }
  }

  json& config() { return config_; }
  void drop(const std::string& name) { tensors_.erase(name); }
  void add(const std::string& name, const std::string& dtype, const json& shape, const std::string& data) {
    tensors_[name] = {dtype, shape, data};
  }
  template <typename Rename>
  void rename_all(Rename rename) {
    std::map<std::string, Tensor> renamed;
    for (auto& [name, tensor] : tensors_) renamed[rename(name)] = std::move(tensor);
    tensors_ = std::move(renamed);
  }

  std::unique_ptr<WeightSource> open() const {
    json header = json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors_) {
      header[name] = {{"dtype", tensor.dtype},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
      data += tensor.data;
    }
    folder_.write("model.safetensors", safetensors_image(header.dump(), data));
    return weights_from_folder(folder_.path(), config_from_json(folder_.write("config.json", config_.dump())));
  }
  std::string error() const {
    return input_error([this] { open(); });
  }
  const std::string& folder() const { return folder_.path(); }

 private:
  struct Tensor {
    std::string dtype;
    json shape;
    std::string data;
  };
  TemporaryFolder folder_;
  json config_;
  std::map<std::string, Tensor> tensors_;
};

TEST(FolderWeights, ThePrefixMayBeThereOrNot) {
  EditedCheckpoint gpt2("gpt2");
  gpt2.rename_all([](const std::string& name) { return "transformer." + name; });
  EXPECT_THAT(differing_roles(*golden_weights("gpt2"), *gpt2.open()), ::testing::IsEmpty());
  EditedCheckpoint llama("llama-mha");
  llama.rename_all([](const std::string& name) { return name.starts_with("model.") ? name.substr(6) : name; });
  EXPECT_THAT(differing_roles(*golden_weights("llama-mha"), *llama.open()), ::testing::IsEmpty());
}

TEST(FolderWeights, NotTiedWithoutAHeadIsAnErrorThatNamesTheTensor) {
  EditedCheckpoint checkpoint("llama-mqa-tied");
  checkpoint.config()["tie_word_embeddings"] = false;
  EXPECT_THAT(checkpoint.error(), AllOf(HasSubstr("'lm_head.weight' is missing"), HasSubstr("not tied")));
  checkpoint.config().erase("tie_word_embeddings");  // the family's own choice is the same
  EXPECT_THAT(checkpoint.error(), HasSubstr("'lm_head.weight' is missing"));
}

TEST(FolderWeights, AnExplicitTieWinsOverAHeadInTheFile) {
  EditedCheckpoint checkpoint("llama-mha");
  checkpoint.config()["tie_word_embeddings"] = true;
  const auto weights = checkpoint.open();
  EXPECT_TRUE(weights->config().tied_embedding);
  EXPECT_FALSE(has_role(weights->config(), WeightRole::lm_head));
}

TEST(FolderWeights, MissingMisshapenAndUnreadableTensorsAreNamed) {
  EditedCheckpoint missing("llama-mha");
  missing.drop("model.layers.1.mlp.up_proj.weight");
  EXPECT_THAT(missing.error(), HasSubstr("'model.layers.1.mlp.up_proj.weight' is missing"));
  EditedCheckpoint misshapen("llama-mha");
  misshapen.add("model.norm.weight", "F32", {63}, std::string(252, '\0'));
  EXPECT_THAT(misshapen.error(), AllOf(HasSubstr("'model.norm.weight'"), HasSubstr("[63]"), HasSubstr("[64]")));
  EditedCheckpoint unreadable("llama-mha");
  unreadable.add("model.norm.weight", "I64", {64}, std::string(512, '\0'));
  EXPECT_THAT(unreadable.error(), AllOf(HasSubstr("'model.norm.weight'"), HasSubstr("I64")));
}

TEST(FolderWeights, ATensorThatWouldBeLeftOutIsRefused) {
  EditedCheckpoint checkpoint("llama-mha");
  checkpoint.add("model.layers.0.self_attn.q_proj.bias", "F32", {64}, std::string(256, '\0'));
  EXPECT_THAT(checkpoint.error(), HasSubstr("'model.layers.0.self_attn.q_proj.bias'"));
  EditedCheckpoint harmless("gpt2");
  harmless.add("h.0.attn.bias", "U8", {1, 1, 2, 2}, std::string(4, '\0'));
  harmless.add("h.0.attn.masked_bias", "F32", json::array(), std::string(4, '\0'));
  EXPECT_NO_THROW(harmless.open());
}

TEST(GgufWeights, BiasesOfQAndKAreReorderedLikeTheirRows) {
  EditedCheckpoint checkpoint("llama-mha");
  checkpoint.config()["attention_bias"] = true;
  std::vector<float> bias(64);
  std::iota(bias.begin(), bias.end(), 0.0F);
  for (int layer = 0; layer < 3; ++layer) {
    for (const char* name : {"q", "k", "v", "o"}) {
      checkpoint.add(fmt::format("model.layers.{}.self_attn.{}_proj.bias", layer, name), "F32", {64},
                     bytes_of_all(bias));
    }
  }
  const auto expected = checkpoint.open();
  EXPECT_EQ(expected->read(WeightRole::q_bias, 1).values, bias);
  const TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", gguf_of_folder(checkpoint.folder(), RowOrder::converted));
  const std::shared_ptr<const GgufFile> file = GgufFile::open(path);
  EXPECT_THAT(differing_roles(*expected, *weights_from_gguf(file, config_from_gguf(*file))), ::testing::IsEmpty());
}

TEST(FolderWeights, F16AndF32HoldTheSameSmallNumbersAsBf16) {
  EditedCheckpoint checkpoint("llama-mha");
  checkpoint.add("model.norm.weight", "F32", {64}, bytes_of_all(std::vector<float>(64, 1.5F)));
  checkpoint.add("model.layers.0.input_layernorm.weight", "F16", {64},
                 bytes_of_all(std::vector<std::uint16_t>(64, 0x3e00)));
  checkpoint.add("model.layers.1.input_layernorm.weight", "BF16", {64},
                 bytes_of_all(std::vector<std::uint16_t>(64, 0x3fc0)));
  const auto weights = checkpoint.open();
  const std::vector<float> expected(64, 1.5F);
  EXPECT_EQ(weights->read(WeightRole::final_norm, 0).values, expected);
  EXPECT_EQ(weights->read(WeightRole::attention_norm, 0).values, expected);
  EXPECT_EQ(weights->read(WeightRole::attention_norm, 1).values, expected);
}

}  // namespace
}  // namespace kvlab::test
