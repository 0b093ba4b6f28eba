// The states of a merging, as a reader sees them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/tokenizer/tokenizer.h"
#include "tests/tokenizer/golden_strings.h"

namespace kvlab {
namespace {

std::vector<std::string> explain(const std::string& folder, const std::string& text) {
  return tokenizer_from_folder(golden_path(folder))->explain(text);
}

TEST(SpecS1, ExplainGathersMergesUntilOneUsesAPieceOfItsLine) {
  EXPECT_THAT(explain("tokenizer-quantum", "Quantum mechanics is a fundamental"),
              testing::ElementsAre(
                  "Q|u|a|n|t|u|m|▁|m|e|c|h|a|n|i|c|s|▁|i|s|▁|a|▁|f|u|n|d|a|m|e|n|t|a|l",
                  "Qu|an|t|um|▁m|e|ch|an|ic|s|▁i|s|▁a|▁f|un|d|am|en|t|al",
                  "Quan|t|um|▁me|chan|ics|▁is|▁a|▁fun|d|amen|tal", "Quant|um|▁mechan|ics|▁is|▁a|▁fun|damen|tal",
                  "Quant|um|▁mechan|ics|▁is|▁a|▁fun|damental", "Quant|um|▁mechan|ics|▁is|▁a|▁fundamental"));
}

TEST(SpecS1, TheVocabularyOfTheExampleHasNoQuantum) {
  const auto tokenizer = tokenizer_from_folder(golden_path("tokenizer-quantum"));
  EXPECT_FALSE(tokenizer->find_piece("Quantum"));
  EXPECT_TRUE(tokenizer->find_piece("Quant"));
  expect_golden_strings(*tokenizer, read_golden("tokenizer-quantum/ids.json").at("strings"));
}

TEST(SpecS1, BytesStandInForCharactersWithoutAPiece) {
  EXPECT_THAT(explain("tokenizer-quantum", "a é"), testing::ElementsAre("a|▁|é", "a|▁|<0xC3>|<0xA9>"));
}

TEST(SpecS1, ByteLevelStatesAreSpelledAsInTheVocabulary) {
  const std::vector<std::string> lines = explain("tokenizers/gpt2", "the world é");
  EXPECT_EQ(lines.front(), "t|h|e|Ġ|w|o|r|l|d|Ġ|Ã|©");
  EXPECT_EQ(lines.back(), "the|Ġwor|ld|Ġ|Ã©");
}

TEST(SpecS1, WholeWordsAppearInTheLastLine) {
  const std::vector<std::string> lines = explain("tokenizers/llama3", "hello mechanics");
  EXPECT_EQ(lines.front(), "h|e|l|l|o|Ġ|m|e|c|h|a|n|i|c|s");
  EXPECT_EQ(lines.back(), "hello|Ġmechanics");
}

TEST(SpecS1, UserDefinedPiecesAreWholeFromTheStart) {
  EXPECT_EQ(explain("tokenizers/gemma", "a<table>a").front(), "a|<table>|a");
}

TEST(SpecS1, TheLastLineIsWhatEncodeGives) {
  for (const char* name : {"gpt2", "smollm", "llama3", "qwen2", "llama2", "gemma"}) {
    const auto tokenizer = tokenizer_from_folder(golden_path(std::string("tokenizers/") + name));
    const nlohmann::json golden = read_golden(std::string("tokenizers/") + name + "/ids.json");
    for (const nlohmann::json& entry : golden.at("strings")) {
      const auto text = entry.at("text").get<std::string>();
      std::vector<std::string> pieces;
      for (const std::int32_t id : tokenizer->encode(text, false)) pieces.push_back(tokenizer->piece(id));
      EXPECT_EQ(tokenizer->explain(text).back(), fmt::format("{}", fmt::join(pieces, "|")))
          << name << ": " << entry.at("text");
    }
  }
}

TEST(SpecS1, TextThatIsNotUtf8IsRefused) { EXPECT_ANY_THROW(explain("tokenizer-quantum", "ab\xC3")); }

}  // namespace
}  // namespace kvlab
