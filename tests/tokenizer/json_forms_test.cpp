// What a tokenizer.json may hold beside the golden forms, and how each thing that is not supported is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "kernels/error.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/tokenizer/golden_strings.h"

namespace kvlab {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class JsonForms : public testing::Test {
 protected:
  JsonForms()
      : folder_(std::filesystem::path(testing::TempDir()) /
                (std::string("kvlab_json_") + testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(folder_);
  }
  ~JsonForms() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::unique_ptr<Tokenizer> open() const { return tokenizer_from_folder(folder_.string()); }
  std::unique_ptr<Tokenizer> open(const json& file) const {
    write("tokenizer.json", file.dump());
    return open();
  }
  std::string refusal() const {
    try {
      open();
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  std::string refusal(const json& file) const {
    write("tokenizer.json", file.dump());
    return refusal();
  }
  /// The refusal of a golden form after `patch` (RFC 7386: null removes) is applied.
  std::string refusal_of(const std::string& form, const json& patch) const {
    json file = read_golden("tokenizers/" + form + "/tokenizer.json");
    file.merge_patch(patch);
    return refusal(file);
  }

  std::filesystem::path folder_;
};

TEST_F(JsonForms, AFolderWithoutTheFileHasNoTokenizer) { EXPECT_EQ(open(), nullptr); }

TEST_F(JsonForms, UnknownComponentsAreNamed) {
  EXPECT_THAT(refusal_of("gpt2", {{"model", {{"type", "WordPiece"}}}}),
              AllOf(HasSubstr("model"), HasSubstr("'WordPiece'")));
  EXPECT_THAT(refusal_of("gpt2", {{"normalizer", {{"type", "Lowercase"}}}}),
              AllOf(HasSubstr("normalizer"), HasSubstr("'Lowercase'")));
  EXPECT_THAT(refusal_of("gpt2", {{"pre_tokenizer", {{"type", "Whitespace"}}}}),
              AllOf(HasSubstr("pre_tokenizer"), HasSubstr("'Whitespace'")));
  EXPECT_THAT(refusal_of("gpt2", {{"post_processor", {{"type", "BertProcessing"}}}}),
              AllOf(HasSubstr("post_processor"), HasSubstr("'BertProcessing'")));
  EXPECT_THAT(refusal_of("gpt2", {{"decoder", {{"type", "CTC"}}}}), AllOf(HasSubstr("decoder"), HasSubstr("'CTC'")));
}

TEST_F(JsonForms, SettingsThatChangeTextForGoodAreRefused) {
  EXPECT_THAT(refusal_of("gpt2", {{"pre_tokenizer", {{"add_prefix_space", true}}}}), HasSubstr("add_prefix_space"));
  EXPECT_THAT(refusal_of("gpt2", {{"model", {{"end_of_word_suffix", "</w>"}}}}), HasSubstr("end_of_word_suffix"));
  json file = read_golden("tokenizers/gpt2/tokenizer.json");
  file["added_tokens"][0]["rstrip"] = true;
  EXPECT_THAT(refusal(file), AllOf(HasSubstr("rstrip"), HasSubstr("<|endoftext|>")));
}

TEST_F(JsonForms, NeitherKindOrBothAreRefused) {
  EXPECT_THAT(refusal_of("gpt2", {{"pre_tokenizer", nullptr}}), HasSubstr("ByteLevel"));
  const json marks = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  EXPECT_THAT(refusal_of("gpt2", {{"normalizer", marks}}), HasSubstr("ByteLevel"));
}

TEST_F(JsonForms, MalformedFilesAreRefusedByPlace) {
  write("tokenizer.json", "{\"model\": ");
  EXPECT_THAT(refusal(), HasSubstr("tokenizer.json"));
  write("tokenizer.json", "[]");
  EXPECT_THAT(refusal(), HasSubstr("object"));
  EXPECT_THAT(refusal_of("gpt2", {{"model", {{"vocab", nullptr}}}}), HasSubstr("'vocab' is missing"));
  EXPECT_THAT(refusal_of("gpt2", {{"model", {{"vocab", {{"a", -1}}}}}}), HasSubstr("'a'"));
  EXPECT_THAT(refusal_of("gpt2", {{"model", {{"vocab", {{"a", 4000000000}}}}}}), HasSubstr("'a'"));
  EXPECT_THAT(refusal_of("gpt2", {{"model", {{"vocab", {{"a", 1.5}}}}}}), HasSubstr("'a'"));
  EXPECT_THAT(refusal_of("gpt2", {{"model", {{"vocab", {{"b", 1}}}}}}), HasSubstr("'b'"));
  EXPECT_THAT(refusal_of("gpt2", {{"model", {{"merges", {"a b c"}}}}}),
              AllOf(HasSubstr("merges"), HasSubstr("entry 0")));
  EXPECT_THAT(refusal_of("gpt2", {{"model", {{"merges", {"a nowhere"}}}}}), HasSubstr("'nowhere'"));
  EXPECT_THAT(refusal_of("gpt2", {{"model", {{"unk_token", "<none>"}}}}), HasSubstr("'<none>'"));
  EXPECT_THAT(
      refusal_of(
          "llama3",
          {{"pre_tokenizer",
            {{"pretokenizers", {{{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(a"}}}}}}}}}),
      HasSubstr("'(a'"));
}

TEST_F(JsonForms, TheConfigurationBesideItDecidesOnBosAndEos) {
  const json file = read_golden("tokenizers/llama2/tokenizer.json");
  write("tokenizer_config.json", R"({"add_bos_token": false, "bos_token": {"content": "<s>"}, "eos_token": "</s>",
                                     "chat_template": [{"name": "default", "template": "{{ x }}"}]})");
  const auto tokenizer = open(file);
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_THAT(tokenizer->eos_ids(), testing::ElementsAre(2));
  EXPECT_EQ(tokenizer->chat_template(), "{{ x }}");
  write("tokenizer_config.json", R"({"eos_token": "<nowhere>"})");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("tokenizer_config.json"), HasSubstr("eos_token"), HasSubstr("<nowhere>")));
}

TEST_F(JsonForms, CharactersWithoutAPieceBecomeTheUnknownTokenWhereThereIsOne) {
  const json spaces = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  json file = {{"normalizer", spaces},
               {"model", {{"vocab", {{"<unk>", 0}, {"a", 1}}}, {"merges", json::array()}, {"unk_token", "<unk>"}}}};
  EXPECT_THAT(open(file)->encode("aéèa", false), testing::ElementsAre(1, 0, 0, 1));
  file["model"]["fuse_unk"] = true;
  EXPECT_THAT(open(file)->encode("aéèa", false), testing::ElementsAre(1, 0, 1));
  file["model"].erase("unk_token");
  EXPECT_THROW(open(file)->encode("aé", false), InputError);
}

}  // namespace
}  // namespace kvlab
