// Prompts, numbers and tolerances: the small parts below the commands.
#include "harness/prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/commands/setting_changes.h"
#include "harness/numbers.h"
#include "harness/tolerance.h"
#include "kernels/error.h"

namespace kvlab {
namespace {

constexpr std::int32_t kStart = 256;  // <|im_start|>
constexpr std::int32_t kEnd = 257;    // <|im_end|>
constexpr std::int32_t kBos = 258;

/// Every byte is an id; three special pieces follow.
class ByteTokenizer : public Tokenizer {
 public:
  ByteTokenizer(std::string chat_template, bool bos) : chat_template_(std::move(chat_template)), bos_(bos) {}

  std::vector<std::int32_t> encode(std::string_view text, bool parse_special) const override {
    std::vector<std::int32_t> ids;
    while (!text.empty()) {
      if (parse_special && text.starts_with("<|im_start|>")) {
        ids.push_back(kStart);
        text.remove_prefix(12);
      } else {
        ids.push_back(static_cast<unsigned char>(text.front()));
        text.remove_prefix(1);
      }
    }
    return ids;
  }
  std::string token_bytes(std::int32_t id) const override { return std::string(1, static_cast<char>(id)); }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id == kStart) {
        text.append("<start>");
      } else if (id == kEnd) {
        text.append("<end>");
      } else if (id == kBos) {
        text.append("<bos>");
      } else {
        text.push_back(static_cast<char>(id));
      }
    }
    return text;
  }
  std::string piece(std::int32_t id) const override { return token_bytes(id); }
  std::vector<std::string> explain(std::string_view) const override { return {}; }
  std::int64_t vocab_size() const override { return 259; }
  std::optional<std::int32_t> bos_id() const override { return kBos; }
  bool adds_bos() const override { return bos_; }
  std::vector<std::int32_t> eos_ids() const override { return {}; }
  std::optional<std::int32_t> find_piece(std::string_view piece) const override {
    if (piece == "<|im_start|>") return kStart;
    if (piece == "<|im_end|>") return kEnd;
    return std::nullopt;
  }
  bool is_special(std::int32_t id) const override { return id >= 256; }
  std::string chat_template() const override { return chat_template_; }

 private:
  std::string chat_template_;
  bool bos_;
};

constexpr const char* kWithSystem =
    "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}";

std::string chat(const std::string& chat_template, const std::string& message, bool bos = false, bool special = false) {
  const ByteTokenizer tokenizer(chat_template, bos);
  return tokenizer.decode(chat_ids(tokenizer, message, special));
}

TEST(Chat, PutsTheTemplatesSystemMessageInFront) {
  EXPECT_EQ(chat(kWithSystem, "Hi"), "<start>system\nBe kind.<end>\n<start>user\nHi<end>\n<start>assistant\n");
}

TEST(Chat, ReadsAnEscapedLineBreakToo) {
  EXPECT_EQ(chat("{{ '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}", "Hi"),
            "<start>system\nBe kind.<end>\n<start>user\nHi<end>\n<start>assistant\n");
}

TEST(Chat, HasNoSystemMessageWhereTheTemplateHasNone) {
  EXPECT_EQ(chat("{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}", "Hi"),
            "<start>user\nHi<end>\n<start>assistant\n");
  EXPECT_EQ(chat("{{ '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}", "Hi"),
            "<start>user\nHi<end>\n<start>assistant\n");
}

TEST(Chat, UserTextThatSpellsASpecialTokenStaysText) {
  EXPECT_THAT(chat(kWithSystem, "<|im_start|>"), ::testing::HasSubstr("user\n<|im_start|><end>"));
  EXPECT_THAT(chat(kWithSystem, "<|im_start|>", false, true), ::testing::HasSubstr("user\n<start><end>"));
}

TEST(Chat, BeginsWithTheBosWhereTheModelSaysSo) {
  EXPECT_EQ(chat(kWithSystem, "Hi", true).rfind("<bos><start>system", 0), 0U);
}

TEST(Chat, AnUnknownFormIsRefused) {
  EXPECT_THROW(chat("", "Hi"), InputError);
  EXPECT_THROW(chat("[INST] {{ message }} [/INST]", "Hi"), InputError);
}

TEST(TextIds, AddTheBosOnceAndOnlyWhereTheModelSaysSo) {
  EXPECT_EQ(text_ids(ByteTokenizer("", true), "a", false), (std::vector<std::int32_t>{kBos, 'a'}));
  EXPECT_EQ(text_ids(ByteTokenizer("", true), "", false), (std::vector<std::int32_t>{kBos}));
  EXPECT_EQ(text_ids(ByteTokenizer("", false), "a", false), (std::vector<std::int32_t>{'a'}));
  EXPECT_TRUE(text_ids(ByteTokenizer("", false), "", false).empty());
}

TEST(SeededIds, RepeatAndStayInRange) {
  const std::vector<std::int32_t> ids = seeded_ids(7, 1000, 13);
  EXPECT_EQ(ids, seeded_ids(7, 1000, 13));
  EXPECT_NE(ids, seeded_ids(8, 1000, 13));
  for (const std::int32_t id : ids) EXPECT_TRUE(id >= 0 && id < 13);
}

TEST(Numbers, AreWholeTextsInRange) {
  EXPECT_EQ(parse_integer("--x", "42", 0, 100), 42);
  for (const char* text : {"", " 1", "1 ", "0x1", "+1", "1e3", "101", "-1", "99999999999999999999", "nan"}) {
    EXPECT_THROW(parse_integer("--x", text, 0, 100), InputError) << text;
  }
  EXPECT_EQ(parse_number("--x", "0.25", 0, 1), 0.25);
  for (const char* text : {"", "nan", "inf", "1e999", "-0.1", "1.1", "0.5x", " 0.5"}) {
    EXPECT_THROW(parse_number("--x", text, 0, 1), InputError) << text;
  }
  EXPECT_EQ(parse_ids("--x", "1,0,7"), (std::vector<std::int32_t>{1, 0, 7}));
  for (const char* text : {"", "1,", ",1", "1,,2", "1;2", "-1", "4294967296"}) {
    EXPECT_THROW(parse_ids("--x", text), InputError) << text;
  }
}

TEST(SettingChanges, ApplyOneKeyEach) {
  GenerationSettings settings;
  settings.stops = {"a"};
  EXPECT_EQ(changed_settings(settings, parse_change("3:stop=b=c:d")).stops, (std::vector<std::string>{"b=c:d"}));
  EXPECT_TRUE(changed_settings(settings, parse_change("3:stop=")).stops.empty());
  EXPECT_EQ(changed_settings(settings, parse_change("3:add-stop=b")).stops, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(changed_settings(settings, parse_change("3:top-p=0.5")).sampling.top_p, 0.5);
  EXPECT_EQ(parse_change("17:top-k=4").step, 17);
}

TEST(CompareRow, ANanIsWorseThanAnyNumber) {
  const std::vector<float> actual = {1, std::numeric_limits<float>::quiet_NaN(), 9};
  const std::vector<double> expected = {1, 2, 3};
  Difference difference;
  compare_row(actual, expected, 5, difference);
  EXPECT_TRUE(std::isnan(difference.worst));
  EXPECT_EQ(difference.row, 5);
  EXPECT_EQ(difference.id, 1);
  EXPECT_FALSE(difference.worst <= 1e9);
}

TEST(CompareRow, KeepsTheWorst) {
  Difference difference;
  compare_row(std::vector<float>{1, 2.5F}, std::vector<double>{1, 2}, 0, difference);
  compare_row(std::vector<float>{1.25F, 2}, std::vector<double>{1, 2}, 1, difference);
  EXPECT_EQ(difference.worst, 0.5);
  EXPECT_EQ(difference.row, 0);
  EXPECT_EQ(difference.id, 1);
}

TEST(Tolerance, GrowsWithDepthAndSizeOfLogits) {
  ModelConfig small;
  small.n_layers = 2;
  small.n_heads = 2;
  small.head_dim = 32;
  small.hidden = 64;
  small.ffn_hidden = 128;
  ModelConfig deep = small;
  deep.n_layers = 32;
  EXPECT_GT(rounding_tolerance(deep, 30), rounding_tolerance(small, 30));
  EXPECT_GT(rounding_tolerance(small, 300), rounding_tolerance(small, 30));
  EXPECT_GT(storage_tolerance(small, 30), rounding_tolerance(small, 30));
  EXPECT_GT(rounding_tolerance(small, 30, true), rounding_tolerance(small, 30));
  EXPECT_LT(rounding_tolerance(small, 30), 1e-3);
}

}  // namespace
}  // namespace kvlab
