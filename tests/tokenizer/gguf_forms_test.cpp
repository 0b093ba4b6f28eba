// The same vocabularies through GGUF metadata: patterns by name, scores in place of merges, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "kernels/error.h"
#include "model/files/gguf.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/tokenizer/gguf_writer.h"
#include "tests/tokenizer/golden_strings.h"

namespace kvlab {
namespace {

/// What a converter would write down of a tokenizer.json; a test may spoil a part before opening it.
struct Metadata {
  std::string model;
  std::string pre;
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;
  std::uint32_t bos_id = 0;
  bool add_space_prefix = false;

  std::unique_ptr<Tokenizer> open() const {
    GgufWriter writer;
    writer.put("tokenizer.ggml.model", model.c_str());
    if (!pre.empty()) writer.put("tokenizer.ggml.pre", pre.c_str());
    writer.put("tokenizer.ggml.tokens", tokens);
    writer.put("tokenizer.ggml.token_type", types);
    if (!scores.empty()) writer.put("tokenizer.ggml.scores", scores);
    if (!merges.empty()) writer.put("tokenizer.ggml.merges", merges);
    writer.put("tokenizer.ggml.bos_token_id", bos_id);
    writer.put("tokenizer.ggml.add_space_prefix", add_space_prefix);
    const std::string path = testing::TempDir() + "kvlab_tokenizer_" +
                             testing::UnitTest::GetInstance()->current_test_info()->name() + ".gguf";
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    writer.write(path);
    auto tokenizer = tokenizer_from_gguf(*GgufFile::open(path));
    std::filesystem::remove(path);
    return tokenizer;
  }
};

std::string merge_line(const nlohmann::json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  return merge[0].get<std::string>() + " " + merge[1].get<std::string>();
}

Metadata read_form(const std::string& name, const std::string& model, const std::string& pre) {
  const nlohmann::json file = read_golden("tokenizers/" + name + "/tokenizer.json");
  Metadata metadata;
  metadata.model = model;
  metadata.pre = pre;
  const auto set = [&](std::size_t id, const std::string& piece, std::int32_t type) {
    metadata.tokens.resize(std::max(metadata.tokens.size(), id + 1));
    metadata.types.resize(metadata.tokens.size(), 1);
    metadata.tokens[id] = piece;
    metadata.types[id] = type;
  };
  for (const auto& [piece, id] : file["model"]["vocab"].items()) {
    set(id.get<std::size_t>(), piece, piece.starts_with("<0x") ? 6 : 1);
  }
  for (const auto& token : file["added_tokens"]) {
    set(token["id"].get<std::size_t>(), token["content"].get<std::string>(), token["special"].get<bool>() ? 3 : 4);
  }
  for (const auto& merge : file["model"]["merges"]) metadata.merges.push_back(merge_line(merge));
  return metadata;
}

/// Scores as a converter of a SentencePiece model finds them: the rank of the merge that makes a piece, negated.
Metadata read_scored_form(const std::string& name) {
  Metadata metadata = read_form(name, "llama", "default");
  metadata.scores.assign(metadata.tokens.size(), -1e4F);
  for (std::size_t rank = metadata.merges.size(); rank-- > 0;) {
    std::string piece = metadata.merges[rank];
    piece.erase(piece.find(' ', 1), 1);
    const auto at = std::find(metadata.tokens.begin(), metadata.tokens.end(), piece);
    metadata.scores[static_cast<std::size_t>(at - metadata.tokens.begin())] = -static_cast<float>(rank);
  }
  metadata.merges.clear();
  return metadata;
}

std::string refusal(const Metadata& metadata) {
  try {
    metadata.open();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

void expect_golden(const Tokenizer& tokenizer, const std::string& name) {
  expect_golden_strings(tokenizer, read_golden("tokenizers/" + name + "/ids.json").at("strings"));
}

TEST(GgufTokenizer, PatternsByNameGiveTheGoldenIds) {
  expect_golden(*read_form("gpt2", "gpt2", "gpt-2").open(), "gpt2");
  expect_golden(*read_form("gpt2", "gpt2", "").open(), "gpt2");
  expect_golden(*read_form("smollm", "gpt2", "smollm").open(), "smollm");
  expect_golden(*read_form("llama3", "gpt2", "llama-bpe").open(), "llama3");
}

TEST(GgufTokenizer, Qwen2SplitsDigitsOffButLeavesNormalisingToTheCaller) {
  const auto tokenizer = read_form("qwen2", "gpt2", "qwen2").open();
  const nlohmann::json golden = read_golden("tokenizers/qwen2/ids.json");
  for (const nlohmann::json& entry : golden.at("strings")) {
    if (entry.contains("decoded")) continue;  // GGUF has no word for NFC
    EXPECT_EQ(tokenizer->encode(entry.at("text").get<std::string>(), true),
              entry.at("ids").get<std::vector<std::int32_t>>())
        << entry.at("text");
  }
}

TEST(GgufTokenizer, ScoresGiveTheIdsOfTheMerges) {
  Metadata llama2 = read_scored_form("llama2");
  llama2.add_space_prefix = true;
  expect_golden(*llama2.open(), "llama2");
  expect_golden(*read_scored_form("gemma").open(), "gemma");
}

TEST(GgufTokenizer, BosIsPutInFrontWhereTheKindDoes) {
  EXPECT_TRUE(read_scored_form("llama2").open()->adds_bos());
  EXPECT_TRUE(read_form("llama3", "gpt2", "llama-bpe").open()->adds_bos());
  EXPECT_FALSE(read_form("gpt2", "gpt2", "gpt-2").open()->adds_bos());
}

TEST(GgufTokenizer, UnknownKindsAndPatternsAreNamedWithTheKnownOnes) {
  EXPECT_THAT(
      refusal(read_form("gpt2", "gpt2", "dbrx")),
      testing::AllOf(testing::HasSubstr("'dbrx'"), testing::HasSubstr("llama-bpe"), testing::HasSubstr("qwen2")));
  EXPECT_THAT(refusal(read_form("gpt2", "bert", "")),
              testing::AllOf(testing::HasSubstr("tokenizer.ggml.model"), testing::HasSubstr("'bert'")));
}

TEST(GgufTokenizer, SpoiledVocabulariesAreRefusedByKey) {
  Metadata metadata = read_form("gpt2", "gpt2", "gpt-2");
  metadata.types.pop_back();
  EXPECT_THAT(refusal(metadata), testing::HasSubstr("tokenizer.ggml.token_type"));
  metadata.types.push_back(7);
  EXPECT_THAT(refusal(metadata), testing::HasSubstr("tokenizer.ggml.token_type"));
  metadata.types.back() = 3;
  EXPECT_EQ(refusal(metadata), "accepted");
  metadata.bos_id = static_cast<std::uint32_t>(metadata.tokens.size());
  EXPECT_THAT(refusal(metadata), testing::HasSubstr("tokenizer.ggml.bos_token_id"));
  metadata.bos_id = 0;
  for (const char* merge : {"", "a", "nowhere at", "a "}) {
    Metadata spoiled = metadata;
    spoiled.merges.push_back(merge);
    EXPECT_THAT(refusal(spoiled), testing::HasSubstr("tokenizer.ggml.merges")) << merge;
  }
}

TEST(GgufTokenizer, SpoiledScoresAreRefusedByKey) {
  Metadata metadata = read_scored_form("llama2");
  metadata.scores.back() = std::nanf("");
  EXPECT_THAT(refusal(metadata), testing::HasSubstr("tokenizer.ggml.scores"));
  metadata.scores.pop_back();
  EXPECT_THAT(refusal(metadata), testing::HasSubstr("tokenizer.ggml.scores"));
  metadata.tokens.clear();
  metadata.types.clear();
  EXPECT_THAT(refusal(metadata), testing::HasSubstr("tokenizer.ggml.tokens"));
}

}  // namespace
}  // namespace kvlab
