// config.json to ModelConfig: families, defaults, RoPE scaling, windows, and what is refused by key.
#include <nlohmann/json.hpp>

#include "model/files/checkpoint_files.h"
#include "tests/files/test_files.h"

namespace kvlab::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json llama() {
  return {{"model_type", "llama"},    {"hidden_size", 64},
          {"intermediate_size", 128}, {"num_hidden_layers", 2},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"vocab_size", 100},        {"max_position_embeddings", 256}};
}

json of_type(const char* model_type) {
  json out = llama();
  out["model_type"] = model_type;
  return out;
}

json gpt2() {
  return {{"model_type", "gpt2"}, {"n_embd", 64},      {"n_layer", 2},
          {"n_head", 4},          {"vocab_size", 100}, {"n_positions", 32}};
}

json with(json base, const char* key, json value) {
  base[key] = std::move(value);
  return base;
}

json without(json base, const char* key) {
  base.erase(key);
  return base;
}

ModelConfig read_text(const std::string& text, std::vector<std::string>* notes = nullptr) {
  const TemporaryFolder folder;
  return config_from_json(folder.write("config.json", text), notes);
}

ModelConfig read(const json& value, std::vector<std::string>* notes = nullptr) {
  return read_text(value.dump(), notes);
}

std::string error_of(const json& value) {
  const std::string message = input_error([&] { read(value); });
  EXPECT_THAT(message, HasSubstr("config.json")) << "the message must name the file";
  return message;
}

TEST(ConfigJson, LlamaShapeAndDefaults) {
  const ModelConfig config = read(without(without(llama(), "num_key_value_heads"), "max_position_embeddings"));
  EXPECT_EQ(config.family, Family::llama);
  EXPECT_EQ(config.n_heads, 4);
  EXPECT_EQ(config.n_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.context_length, 2048);
  EXPECT_EQ(config.norm_eps, 1e-6);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_EQ(config.rope_scaling.kind, RopeScalingKind::none);
  EXPECT_FALSE(config.tied_embedding);
  EXPECT_FALSE(config.qkv_bias || config.attention_output_bias || config.qk_norm);
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_THAT(config.eos_ids, ElementsAre(2));
}

TEST(ConfigJson, TheNameIsThatOfTheFolderOrTheFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(config_from_json(folder.write("config.json", llama().dump())).name,
            std::filesystem::path(folder.path()).filename());
  EXPECT_EQ(config_from_json(folder.write("my-model.json", llama().dump())).name, "my-model");
}

TEST(ConfigJson, AnExplicitHeadDimWins) {
  EXPECT_EQ(read(with(llama(), "head_dim", 32)).head_dim, 32);
  EXPECT_EQ(read(with(llama(), "head_dim", nullptr)).head_dim, 16);
  EXPECT_EQ(read(of_type("qwen3")).head_dim, 128);
  EXPECT_THAT(error_of(with(llama(), "num_attention_heads", 6)), HasSubstr("num_attention_heads"));
}

TEST(ConfigJson, BiasesAndNormsFollowTheFamily) {
  const ModelConfig biased = read(with(llama(), "attention_bias", true));
  EXPECT_TRUE(biased.qkv_bias && biased.attention_output_bias);
  const ModelConfig qwen2 = read(of_type("qwen2"));
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.attention_output_bias || qwen2.qk_norm);
  const ModelConfig qwen3 = read(of_type("qwen3"));
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.qkv_bias);
  EXPECT_THAT(error_of(with(llama(), "mlp_bias", true)), HasSubstr("mlp_bias"));
}

TEST(ConfigJson, TheTieIsTheFilesOrTheFamilys) {
  EXPECT_TRUE(read(with(llama(), "tie_word_embeddings", true)).tied_embedding);
  EXPECT_FALSE(read(of_type("qwen2")).tied_embedding);
  EXPECT_TRUE(read(gpt2()).tied_embedding);
  EXPECT_FALSE(read(with(gpt2(), "tie_word_embeddings", false)).tied_embedding);
}

TEST(ConfigJson, RopeScalingIsFoundUnderEachOfItsNames) {
  const json llama3 = {
      {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
  const std::vector<json> configs = {with(llama(), "rope_scaling", with(llama3, "rope_type", "llama3")),
                                     with(llama(), "rope_scaling", with(llama3, "type", "llama3")),
                                     with(llama(), "rope_parameters", with(llama3, "rope_type", "llama3"))};
  for (const json& value : configs) {
    const RopeScaling scaling = read(value).rope_scaling;
    EXPECT_EQ(scaling.kind, RopeScalingKind::llama3) << value;
    EXPECT_EQ(scaling.factor, 8.0);
    EXPECT_EQ(scaling.low_freq_factor, 1.0);
    EXPECT_EQ(scaling.high_freq_factor, 4.0);
    EXPECT_EQ(scaling.original_context, 8192);
  }
  const RopeScaling linear = read(with(llama(), "rope_scaling", {{"type", "linear"}, {"factor", 2}})).rope_scaling;
  EXPECT_EQ(linear.kind, RopeScalingKind::linear);
  EXPECT_EQ(linear.factor, 2.0);
  EXPECT_EQ(read(with(llama(), "rope_scaling", {{"rope_type", "default"}})).rope_scaling.kind, RopeScalingKind::none);
  EXPECT_EQ(read(with(llama(), "rope_scaling", nullptr)).rope_scaling.kind, RopeScalingKind::none);
  EXPECT_EQ(read(with(llama(), "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}})).rope_theta, 5e5);
}

TEST(ConfigJson, RopeScalingThatIsUnknownOrIncompleteIsRefused) {
  for (const char* type : {"yarn", "dynamic", "longrope", "su", ""}) {
    const std::string message = error_of(with(llama(), "rope_scaling", {{"rope_type", type}, {"factor", 2}}));
    EXPECT_THAT(message, AllOf(HasSubstr("rope_type"), HasSubstr(type), HasSubstr("llama3")));
  }
  EXPECT_THAT(error_of(with(llama(), "rope_scaling", {{"factor", 2}})), HasSubstr("rope_type: is missing"));
  EXPECT_THAT(error_of(with(llama(), "rope_scaling", {{"type", "linear"}})), HasSubstr("factor: is missing"));
  EXPECT_THAT(error_of(with(llama(), "rope_scaling", {{"type", "linear"}, {"factor", 0}})), HasSubstr("factor"));
  EXPECT_THAT(error_of(with(llama(), "rope_scaling",
                            {{"type", "llama3"},
                             {"factor", 2},
                             {"low_freq_factor", 4},
                             {"high_freq_factor", 4},
                             {"original_max_position_embeddings", 64}})),
              HasSubstr("high_freq_factor"));
  EXPECT_THAT(error_of(with(llama(), "rope_scaling", "linear")), HasSubstr("object"));
  EXPECT_THAT(error_of(with(llama(), "partial_rotary_factor", 0.5)), HasSubstr("partial_rotary_factor"));
}

TEST(ConfigJson, MistralSlidesUnlessItsWindowIsNull) {
  EXPECT_EQ(read(with(of_type("mistral"), "sliding_window", 100)).sliding_window, 100);
  EXPECT_EQ(read(with(of_type("mistral"), "sliding_window", nullptr)).sliding_window, 0);
  EXPECT_EQ(read(of_type("mistral")).sliding_window, 4096);
  EXPECT_EQ(read(with(llama(), "sliding_window", 100)).sliding_window, 0);  // the llama family has no window
}

TEST(ConfigJson, QwenSlidesOnlyWhenToldToInEveryLayer) {
  json qwen = with(of_type("qwen2"), "sliding_window", 100);
  EXPECT_EQ(read(with(qwen, "use_sliding_window", false)).sliding_window, 0);
  qwen["use_sliding_window"] = true;
  EXPECT_EQ(read(with(qwen, "max_window_layers", 0)).sliding_window, 100);
  EXPECT_EQ(read(with(qwen, "max_window_layers", 2)).sliding_window, 0);  // no layer is at or above 2
  EXPECT_THAT(error_of(with(qwen, "max_window_layers", 1)), HasSubstr("max_window_layers"));
  EXPECT_EQ(read(with(qwen, "layer_types", {"sliding_attention", "sliding_attention"})).sliding_window, 100);
  EXPECT_EQ(read(with(qwen, "layer_types", {"full_attention", "full_attention"})).sliding_window, 0);
  EXPECT_THAT(error_of(with(qwen, "layer_types", {"full_attention", "sliding_attention"})), HasSubstr("layer_types"));
  EXPECT_THAT(error_of(with(qwen, "layer_types", {"full_attention"})), HasSubstr("layer_types"));
}

TEST(ConfigJson, Gpt2ShapeAndDefaults) {
  const ModelConfig config = read(gpt2());
  EXPECT_EQ(config.family, Family::gpt2);
  EXPECT_EQ(config.n_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.ffn_hidden, 256);
  EXPECT_EQ(config.context_length, 32);
  EXPECT_THAT(config.eos_ids, ElementsAre(50256));
  EXPECT_EQ(read(with(gpt2(), "n_inner", nullptr)).ffn_hidden, 256);
  EXPECT_EQ(read(with(gpt2(), "n_inner", 8)).ffn_hidden, 8);
  EXPECT_THAT(error_of(with(gpt2(), "activation_function", "gelu")), HasSubstr("gelu_new"));
  EXPECT_THAT(error_of(with(gpt2(), "scale_attn_by_inverse_layer_idx", true)), HasSubstr("inverse_layer"));
}

TEST(ConfigJson, EosIsANumberOrAList) {
  EXPECT_THAT(read(with(llama(), "eos_token_id", 7)).eos_ids, ElementsAre(7));
  EXPECT_THAT(read(with(llama(), "eos_token_id", {7, 8})).eos_ids, ElementsAre(7, 8));
  EXPECT_THAT(read(with(llama(), "eos_token_id", nullptr)).eos_ids, IsEmpty());
  EXPECT_EQ(read(with(llama(), "bos_token_id", nullptr)).bos_id, std::nullopt);
  EXPECT_THAT(error_of(with(llama(), "eos_token_id", {7, -8})), HasSubstr("eos_token_id"));
  EXPECT_THAT(error_of(with(llama(), "eos_token_id", "</s>")), HasSubstr("eos_token_id"));
}

TEST(ConfigJson, UnknownKeysAreIgnoredWithANote) {
  std::vector<std::string> notes;
  read(with(with(llama(), "my_key", 1), "torch_dtype", "bfloat16"), &notes);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], AllOf(HasSubstr("config.json"), HasSubstr("'my_key'")));
  EXPECT_THAT(notes[0], ::testing::Not(HasSubstr("torch_dtype")));
  notes.clear();
  read(llama(), &notes);
  EXPECT_THAT(notes, IsEmpty());
}

TEST(ConfigJson, ARequiredKeyThatIsMissingOrNullIsNamed) {
  for (const char* key :
       {"model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"}) {
    EXPECT_THAT(error_of(without(llama(), key)), AllOf(HasSubstr(key), HasSubstr("missing")));
    EXPECT_THAT(error_of(with(llama(), key, nullptr)), AllOf(HasSubstr(key), HasSubstr("null")));
  }
  EXPECT_THAT(error_of(with(llama(), "rope_theta", nullptr)), AllOf(HasSubstr("rope_theta"), HasSubstr("null")));
}

TEST(ConfigJson, WholeNumbersMayBeWrittenAsFloats) {
  EXPECT_EQ(read(with(llama(), "hidden_size", 64.0)).hidden, 64);
  EXPECT_THAT(error_of(with(llama(), "hidden_size", 64.5)), HasSubstr("hidden_size"));
  EXPECT_THAT(error_of(with(llama(), "hidden_size", "64")), HasSubstr("hidden_size"));
  EXPECT_THAT(error_of(with(llama(), "hidden_size", true)), HasSubstr("hidden_size"));
  EXPECT_THAT(error_of(with(llama(), "hidden_size", 1e300)), HasSubstr("hidden_size"));
  EXPECT_THAT(error_of(with(llama(), "rope_theta", "10000")), HasSubstr("rope_theta"));
}

TEST(ConfigJson, ShapesThatContradictEachOtherAreRefused) {
  EXPECT_THAT(error_of(with(llama(), "num_key_value_heads", 3)), HasSubstr("3 KV heads do not divide 4"));
  EXPECT_THAT(error_of(with(llama(), "num_key_value_heads", 0)), HasSubstr("KV heads is 0"));
  EXPECT_THAT(error_of(with(llama(), "num_attention_heads", 0)), HasSubstr("num_attention_heads"));
  EXPECT_THAT(error_of(with(llama(), "head_dim", 15)), HasSubstr("even"));
  EXPECT_THAT(error_of(with(llama(), "num_hidden_layers", -1)), HasSubstr("layers is -1"));
  EXPECT_THAT(error_of(with(llama(), "vocab_size", 4503599627370496)), HasSubstr("vocabulary"));
  EXPECT_THAT(error_of(with(llama(), "rms_norm_eps", -1)), HasSubstr("epsilon"));
}

TEST(ConfigJson, OtherArchitecturesAndQuantisedCheckpointsAreRefused) {
  EXPECT_THAT(error_of(of_type("gemma3")),
              AllOf(HasSubstr("'gemma3'"), HasSubstr("llama, mistral, qwen2, qwen3, gpt2")));
  EXPECT_THAT(error_of(with(llama(), "hidden_act", "gelu")), HasSubstr("hidden_act"));
  EXPECT_THAT(error_of(with(llama(), "quantization_config", {{"bits", 4}})), HasSubstr("quantization_config"));
}

TEST(ConfigJson, TextThatIsNoStrictJsonIsRefused) {
  EXPECT_THAT(input_error([] { read_text(R"({"model_type":"llama","model_type":"gpt2"})"); }),
              HasSubstr("duplicate key 'model_type'"));
  EXPECT_THAT(input_error([] { read_text("[]"); }), HasSubstr("object"));
  EXPECT_THAT(input_error([] { read_text(""); }), HasSubstr("not well-formed"));
  EXPECT_THAT(input_error([] { read_text(llama().dump() + "}"); }), HasSubstr("not well-formed"));
  EXPECT_THAT(input_error([] { read_text(std::string(100000, '[')); }), HasSubstr("nested"));
  EXPECT_THAT(input_error([] { read_text(R"({"model_type":1e999})"); }), HasSubstr("config.json"));
  EXPECT_THAT(input_error([] { config_from_json("/nowhere/config.json"); }), HasSubstr("/nowhere/config.json"));
}

}  // namespace
}  // namespace kvlab::test
