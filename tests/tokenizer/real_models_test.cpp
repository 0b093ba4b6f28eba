// The vocabularies of two real models against ids of the `tokenizers` package (tests/golden).
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "model/files/gguf.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/tokenizer/golden_strings.h"

namespace kvlab {
namespace {

struct RealModel {
  const char* fetch_name;
  const char* file;
  const char* golden;
  bool adds_bos;
};

class RealModels : public testing::TestWithParam<RealModel> {
 protected:
  void SetUp() override {
    const std::string path = std::string(KVLAB_SOURCE_DIR) + "/models/" + GetParam().file;
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << path << " is missing: fetch it with scripts/fetch_model.py " << GetParam().fetch_name;
    }
    tokenizer_ = tokenizer_from_gguf(*GgufFile::open(path));
    ASSERT_NE(tokenizer_, nullptr);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(RealModels, DifficultStringsGiveTheGoldenIdsAndComeBack) {
  expect_golden_strings(*tokenizer_, read_golden(GetParam().golden).at("strings"));
}

TEST_P(RealModels, PromptsGiveTheGoldenIds) {
  EXPECT_EQ(tokenizer_->adds_bos(), GetParam().adds_bos);
  const nlohmann::json golden = read_golden(GetParam().golden);
  for (const nlohmann::json& prompt : golden.at("prompts")) {
    const auto text = prompt.at("prompt").get<std::string>();
    std::vector<std::int32_t> ids = tokenizer_->encode(text, prompt.value("parse_special", false));
    if (tokenizer_->adds_bos()) ids.insert(ids.begin(), tokenizer_->bos_id().value());
    EXPECT_EQ(ids, prompt.at("prompt_ids").get<std::vector<std::int32_t>>()) << text;
  }
}

TEST_P(RealModels, TheLongPromptComesBackFromItsIds) {
  const nlohmann::json golden = read_golden(GetParam().golden);
  auto expected = golden.at("long").at("prompt_ids").get<std::vector<std::int32_t>>();
  if (tokenizer_->adds_bos()) expected.erase(expected.begin());
  EXPECT_EQ(tokenizer_->encode(tokenizer_->decode(expected), false), expected);
}

TEST_P(RealModels, EveryOrdinaryByteComesBackOrIsRefused) {
  for (int code = 0; code < 128; ++code) {
    const std::string text = std::string("a") + static_cast<char>(code) + "b";
    try {
      EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(text, false)), text) << code;
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find("has no piece"), std::string::npos) << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, RealModels,
                         testing::Values(RealModel{"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2.json", false},
                                         RealModel{"gemma3", "gemma-3-270m-q4_k_m.gguf", "gemma3.json", true}),
                         [](const testing::TestParamInfo<RealModel>& model) { return model.param.fetch_name; });

}  // namespace
}  // namespace kvlab
