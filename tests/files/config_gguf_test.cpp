// GGUF metadata to ModelConfig: what is read off keys, what off tensors, and what is refused.
#include "model/files/checkpoint_files.h"
#include "tests/files/gguf_of_folder.h"
#include "tests/files/test_files.h"

namespace kvlab::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

GgufImage llama() { return gguf_image_of_folder(golden_folder("llama-mqa-tied"), RowOrder::converted); }

ModelConfig read(const GgufImage& image) {
  const TemporaryFolder folder;
  return config_from_gguf(*GgufFile::open(folder.write("m.gguf", image.bytes())));
}

std::string error_of(const GgufImage& image) {
  const std::string message = input_error([&] { read(image); });
  EXPECT_THAT(message, HasSubstr("m.gguf")) << "the message must name the file";
  return message;
}

/// The image with one key more, in place of a key of that name.
GgufImage with_u32(GgufImage image, const std::string& name, std::uint32_t value) {
  std::erase_if(image.keys, [&](const std::string& entry) { return entry.starts_with(gguf_string(name)); });
  return image.u32(name, value);
}

TEST(ConfigGguf, ShapeTieAndIds) {
  const ModelConfig config = read(llama()
                                      .u32("tokenizer.ggml.bos_token_id", 1)
                                      .u32("tokenizer.ggml.eos_token_id", 2)
                                      .u32("tokenizer.ggml.eot_token_id", 9));
  EXPECT_EQ(config.name, "m");
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.n_layers, 2);
  EXPECT_EQ(config.n_heads, 8);
  EXPECT_EQ(config.n_kv_heads, 1);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.vocab_size, 256);
  EXPECT_TRUE(config.tied_embedding);
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_THAT(config.eos_ids, ElementsAre(2, 9));
}

TEST(ConfigGguf, AnOutputMatrixMeansNotTied) {
  GgufImage image = llama();
  image.tensor("output.weight", {64, 256}, std::vector<float>(64 * 256));
  EXPECT_FALSE(read(image).tied_embedding);
}

TEST(ConfigGguf, FrequencyDivisorsComeFromTheirTensor) {
  GgufImage image = llama();
  image.tensor("rope_freqs.weight", {4}, {1, 1, 2.5F, 8});
  EXPECT_THAT(read(image).rope_scaling.frequency_divisors, ElementsAre(1, 1, 2.5, 8));
  image.tensors.back() = {"rope_freqs.weight", {3}, 0, std::string(12, '\0'), {}, {}};
  EXPECT_THAT(error_of(image), HasSubstr("rope_freqs.weight"));
  image.tensors.back() = {"rope_freqs.weight", {4}, 0, std::string(16, '\0'), {}, {}};
  EXPECT_THAT(error_of(image), HasSubstr("divisor"));
}

TEST(ConfigGguf, BiasesAreReadOffTheTensors) {
  GgufImage image = llama();
  image.tensor("blk.0.attn_q.bias", {64}, std::vector<float>(64));
  EXPECT_TRUE(read(image).qkv_bias);
  EXPECT_FALSE(read(image).attention_output_bias);
}

TEST(ConfigGguf, LinearScalingIsReadAndOtherKindsAreRefused) {
  const RopeScaling linear =
      read(llama().text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4)).rope_scaling;
  EXPECT_EQ(linear.kind, RopeScalingKind::linear);
  EXPECT_EQ(linear.factor, 4.0);
  const RopeScaling old = read(llama().f32("llama.rope.scale_linear", 2)).rope_scaling;
  EXPECT_EQ(old.kind, RopeScalingKind::linear);
  EXPECT_EQ(old.factor, 2.0);
  EXPECT_EQ(read(llama().text("llama.rope.scaling.type", "none")).rope_scaling.kind, RopeScalingKind::none);
  EXPECT_THAT(error_of(llama().text("llama.rope.scaling.type", "yarn")),
              AllOf(HasSubstr("'yarn'"), HasSubstr("linear")));
}

TEST(ConfigGguf, WhatCannotBeComputedIsRefusedByKey) {
  EXPECT_THAT(error_of(llama().u32("llama.expert_count", 8)), HasSubstr("llama.expert_count"));
  EXPECT_THAT(error_of(llama().u32("llama.rope.dimension_count", 4)), HasSubstr("llama.rope.dimension_count"));
  EXPECT_THAT(error_of(llama().u32("llama.attention.key_length", 8).u32("llama.attention.value_length", 16)),
              HasSubstr("llama.attention.value_length"));
  EXPECT_THAT(error_of(with_u32(llama(), "llama.attention.head_count_kv", 3)), HasSubstr("3 KV heads do not divide 8"));
  EXPECT_THAT(error_of(with_u32(llama(), "llama.attention.head_count_kv", 0)), HasSubstr("KV heads is 0"));
  EXPECT_THAT(error_of(with_u32(llama(), "llama.attention.head_count", 0)), HasSubstr("head_count"));
}

TEST(ConfigGguf, AMissingKeyIsNamed) {
  GgufImage image = llama();
  std::erase_if(image.keys, [](const std::string& entry) { return entry.find("block_count") != std::string::npos; });
  EXPECT_THAT(error_of(image), HasSubstr("llama.block_count"));
  EXPECT_THAT(error_of(GgufImage{}), HasSubstr("general.architecture"));
}

TEST(ConfigGguf, AnotherArchitectureIsNamedWithTheSupportedOnes) {
  GgufImage image;
  image.text("general.architecture", "gemma3");
  EXPECT_THAT(error_of(image), AllOf(HasSubstr("'gemma3'"), HasSubstr("llama"), HasSubstr("qwen3"), HasSubstr("gpt2")));
}

TEST(ConfigGguf, TheRealModelIsReadOrRefusedByName) {
  const std::string models = std::string(KVLAB_SOURCE_DIR) + "/models/";
  const std::string smollm2 = models + "SmolLM2-135M-Instruct.Q4_1.gguf";
  const std::string gemma3 = models + "gemma-3-270m-q4_k_m.gguf";
  if (!std::filesystem::exists(smollm2) || !std::filesystem::exists(gemma3)) {
    GTEST_SKIP() << "fetch the models with: scripts/fetch_model.py smollm2; scripts/fetch_model.py gemma3";
  }
  const std::shared_ptr<const GgufFile> file = GgufFile::open(smollm2);
  const ModelConfig config = config_from_gguf(*file);
  EXPECT_EQ(parameter_count(config), 134'515'008);
  EXPECT_EQ(config.n_heads, 9);
  EXPECT_EQ(config.n_kv_heads, 3);
  EXPECT_EQ(config.context_length, 8192);
  EXPECT_TRUE(config.tied_embedding);
  EXPECT_NO_THROW(weights_from_gguf(file, config));
  EXPECT_THAT(input_error([&] { config_from_gguf(*GgufFile::open(gemma3)); }), HasSubstr("'gemma3' is not supported"));
}

}  // namespace
}  // namespace kvlab::test
