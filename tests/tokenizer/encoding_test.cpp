// What every user of a tokenizer relies on: exact decoding, special tokens on request, refusals with a place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "kernels/error.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/utf8.h"
#include "tests/tokenizer/golden_strings.h"

namespace kvlab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Tokenizer> open_form(const std::string& name) {
  return tokenizer_from_folder(golden_path("tokenizers/" + name));
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text, bool parse_special) {
  std::vector<std::string> spelled;
  for (const std::int32_t id : tokenizer.encode(text, parse_special)) spelled.push_back(tokenizer.piece(id));
  return spelled;
}

std::string refusal(const Tokenizer& tokenizer, std::string_view text) {
  try {
    tokenizer.encode(text, false);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SpecS13, TheToyEncodesItsQuestionAndAsksForItsBos) {
  const auto toy = tokenizer_from_folder(std::string(KVLAB_SOURCE_DIR) + "/configs/models/toy");
  EXPECT_EQ(toy->vocab_size(), 12);
  EXPECT_THAT(toy->encode("How are you?", false), ElementsAre(3, 7, 1, 9));
  EXPECT_EQ(toy->bos_id(), 0);
  EXPECT_TRUE(toy->adds_bos());
  EXPECT_THAT(toy->eos_ids(), ElementsAre(2));
  EXPECT_TRUE(toy->is_special(0) && toy->is_special(2) && !toy->is_special(5));
  EXPECT_THAT(refusal(*toy, "How is it?"), testing::AllOf(HasSubstr("no piece"), HasSubstr("tokenizer.json")));
}

TEST(SpecS1, PolicyOfBosComesFromTheTemplate) {
  EXPECT_TRUE(open_form("llama2")->adds_bos());
  EXPECT_EQ(open_form("llama2")->bos_id(), 1);
  EXPECT_TRUE(open_form("llama3")->adds_bos());
  EXPECT_FALSE(open_form("gpt2")->adds_bos());
}

TEST(SpecialTokens, AreParsedOnlyOnRequest) {
  const auto llama2 = open_form("llama2");
  EXPECT_THAT(pieces(*llama2, "<s>a", true), ElementsAre("<s>", "▁a"));
  EXPECT_THAT(pieces(*llama2, "<s>a", false), testing::Not(testing::Contains("<s>")));
  EXPECT_EQ(llama2->decode(llama2->encode("<s>a", false)), "<s>a");
  const auto gpt2 = open_form("gpt2");
  EXPECT_THAT(pieces(*gpt2, "<|endoftext|>", true), ElementsAre("<|endoftext|>"));
  EXPECT_THAT(pieces(*gpt2, "<|endoftext|>", false), testing::Not(testing::Contains("<|endoftext|>")));
}

TEST(SpecialTokens, ABytePieceSpelledOutIsPlainText) {
  const auto llama2 = open_form("llama2");
  EXPECT_EQ(llama2->decode(llama2->encode("<0x0A>", true)), "<0x0A>");
}

TEST(SpecialTokens, UserDefinedPiecesAreOrdinaryTextMatchedWhole) {
  const auto gemma = open_form("gemma");
  EXPECT_THAT(pieces(*gemma, "\n\n\n\n\n", false), ElementsAre("\n\n\n", "\n\n"));
  EXPECT_FALSE(gemma->is_special(gemma->find_piece("\n\n").value()));
  EXPECT_TRUE(gemma->is_special(gemma->find_piece("<eos>").value()));
}

TEST(DummySpace, StandsOnlyWhereTheModelSaysSo) {
  const auto llama2 = open_form("llama2");
  EXPECT_EQ(pieces(*llama2, "hello", true).front().substr(0, 3), "▁");
  EXPECT_EQ(pieces(*llama2, " hello", true).front(), "▁");
  const auto after_special = pieces(*llama2, "a</s>a", true);
  EXPECT_THAT(after_special, ElementsAre("▁a", "</s>", "▁a"));
  EXPECT_THAT(pieces(*open_form("gemma"), "a", true), ElementsAre("a"));
  for (const char* text : {"hello", " hello", "  hello", "</s>hello", "</s> hello", "a</s></s>  b", " </s> "}) {
    EXPECT_EQ(llama2->decode(llama2->encode(text, true)), text);
  }
}

TEST(DummySpace, TokenBytesKeepIt) {
  const auto llama2 = open_form("llama2");
  const std::vector<std::int32_t> ids = llama2->encode("a", false);
  EXPECT_EQ(llama2->token_bytes(ids.front()), " a");
  EXPECT_EQ(llama2->decode(ids), "a");
}

TEST(Decoding, IdsOutsideTheVocabularyStandForNothing) {
  const auto gpt2 = open_form("gpt2");
  for (const std::int64_t id : {std::int64_t{-1}, gpt2->vocab_size(), std::int64_t{INT32_MAX}}) {
    EXPECT_EQ(gpt2->token_bytes(static_cast<std::int32_t>(id)), "");
    EXPECT_EQ(gpt2->piece(static_cast<std::int32_t>(id)), "");
    EXPECT_FALSE(gpt2->is_special(static_cast<std::int32_t>(id)));
  }
}

TEST(Decoding, IsTheInverseOfEncodingForAnyText) {
  std::mt19937_64 random(5);
  for (const char* name : {"gpt2", "smollm", "llama3", "llama2", "gemma"}) {
    const auto tokenizer = open_form(name);
    for (int round = 0; round < 200; ++round) {
      std::string text;
      for (int i = 0; i < 20; ++i) {
        char32_t code = static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x80 : 0x20000));
        if ((code >= 0xD800 && code <= 0xDFFF) || code == 0x2581) code = U' ';
        append_utf8(text, code);
      }
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false)), text) << name;
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, true)), text) << name;
    }
  }
}

TEST(Encoding, TextThatIsNotUtf8IsRefusedWithTheOffset) {
  const auto gpt2 = open_form("gpt2");
  const std::vector<std::pair<std::string, int>> cases = {
      {"\xFF", 0},          {"abc\x80", 3},          {"é\xC3", 2},         {"ab\xC0\xAF", 2},
      {"a\xED\xA0\x80", 1}, {"\xF4\x90\x80\x80", 0}, {"aé\xF0\x9F\x98", 3}};
  for (const auto& [text, offset] : cases) {
    EXPECT_THAT(refusal(*gpt2, text), HasSubstr("offset " + std::to_string(offset) + " ")) << offset;
  }
}

TEST(Encoding, LongTextsAndLongWordsTakeLinearTime) {
  // Quadratic work on so many characters would not come back within the test's time limit.
  constexpr std::size_t kLength = 200000;
  std::string words;
  while (words.size() < kLength) words += "the theory of evolution is 42, isn't it?\n";
  for (const char* name : {"gpt2", "llama3", "llama2", "gemma"}) {
    const auto tokenizer = open_form(name);
    for (const std::string& text : {words, std::string(kLength, 'a'), std::string(kLength, ' '),
                                    std::string(kLength, '\n'), std::string(kLength, '1')}) {
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, true)), text) << name;
    }
  }
}

}  // namespace
}  // namespace kvlab
