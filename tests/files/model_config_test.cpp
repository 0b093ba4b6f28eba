// Parameter counts against published numbers, and the checks that every reader relies on.
#include "model/model_config.h"

#include <limits>

#include "model/weight_source.h"
#include "tests/files/test_files.h"

namespace kvlab::test {
namespace {

using ::testing::HasSubstr;

ModelConfig llama_3_1_8b() {
  ModelConfig config;
  config.architecture = "llama";
  config.n_layers = 32;
  config.n_heads = 32;
  config.n_kv_heads = 8;
  config.head_dim = 128;
  config.hidden = 4096;
  config.ffn_hidden = 14336;
  config.vocab_size = 128256;
  config.context_length = 131072;
  return config;
}

TEST(SpecS15, Llama31Has8030261248Parameters) { EXPECT_EQ(parameter_count(llama_3_1_8b()), 8'030'261'248); }

TEST(ModelConfig, Gpt2Has124439808Parameters) {
  ModelConfig config;
  config.architecture = "gpt2";
  config.family = Family::gpt2;
  config.n_layers = 12;
  config.n_heads = config.n_kv_heads = 12;
  config.head_dim = 64;
  config.hidden = 768;
  config.ffn_hidden = 3072;
  config.vocab_size = 50257;
  config.context_length = 1024;
  config.tied_embedding = true;
  EXPECT_EQ(parameter_count(config), 124'439'808);
}

TEST(ModelConfig, BiasesNormsAndTheTieAreCounted) {
  ModelConfig config = llama_3_1_8b();
  const std::int64_t plain = parameter_count(config);
  config.qkv_bias = true;
  EXPECT_EQ(parameter_count(config), plain + 32 * (4096 + 2 * 1024));
  config.attention_output_bias = true;
  EXPECT_EQ(parameter_count(config), plain + 32 * (4096 + 2 * 1024 + 4096));
  config = llama_3_1_8b();
  config.qk_norm = true;
  EXPECT_EQ(parameter_count(config), plain + 32 * 256);
  config = llama_3_1_8b();
  config.tied_embedding = true;
  EXPECT_EQ(parameter_count(config), plain - 128256 * 4096);
}

TEST(ModelConfig, AGoodConfigurationPasses) { EXPECT_NO_THROW(check_config(llama_3_1_8b(), "here")); }

TEST(ModelConfig, WhatIsNotANumberIsRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ModelConfig config = llama_3_1_8b();
  config.norm_eps = nan;
  EXPECT_THAT(input_error([&] { check_config(config, "here"); }), HasSubstr("here: the norm's epsilon is nan"));
  config = llama_3_1_8b();
  config.rope_theta = nan;
  EXPECT_THAT(input_error([&] { check_config(config, "here"); }), HasSubstr("RoPE base"));
  config = llama_3_1_8b();
  config.rope_scaling.frequency_divisors.assign(64, 1.0);
  EXPECT_NO_THROW(check_config(config, "here"));
  config.rope_scaling.frequency_divisors[3] = nan;
  EXPECT_THAT(input_error([&] { check_config(config, "here"); }), HasSubstr("divisor"));
  config.rope_scaling.frequency_divisors.assign(63, 1.0);
  EXPECT_THAT(input_error([&] { check_config(config, "here"); }), HasSubstr("63 RoPE frequency divisors"));
}

TEST(ModelConfig, SizesWhoseProductsWouldOverflowAreRefused) {
  for (std::int64_t ModelConfig::*member :
       {&ModelConfig::n_layers, &ModelConfig::n_heads, &ModelConfig::n_kv_heads, &ModelConfig::head_dim,
        &ModelConfig::hidden, &ModelConfig::ffn_hidden, &ModelConfig::vocab_size, &ModelConfig::context_length}) {
    ModelConfig config = llama_3_1_8b();
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40, INT64_MAX, INT64_MIN}) {
      config.*member = value;
      EXPECT_THAT(input_error([&] { check_config(config, "here"); }), HasSubstr("must be 1 ...")) << value;
    }
  }
}

TEST(WeightRoles, EveryRoleHasANameOfItsOwn) {
  std::vector<std::string> names;
  for (const WeightRole role : all_weight_roles()) names.emplace_back(role_name(role));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_EQ(role_name(WeightRole::lm_head), "lm_head");
}

}  // namespace
}  // namespace kvlab::test
