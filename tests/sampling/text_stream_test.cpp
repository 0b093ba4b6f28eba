// Text as it may be shown: whole characters, nothing of a stop string, nothing lost.
#include "model/sampling/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "kernels/error.h"
#include "model/tokenizer/utf8.h"

namespace kvlab {
namespace {

TextStream stream_with(std::vector<std::string> stops) {
  TextStream stream;
  stream.set_stops(std::move(stops));
  return stream;
}

/// What each push returned, and last what was held back until the end.
std::vector<std::string> shown(TextStream& stream, const std::vector<std::string>& tokens) {
  std::vector<std::string> parts;
  for (const std::string& token : tokens) parts.push_back(stream.push(token));
  parts.push_back(stream.finish());
  return parts;
}

std::vector<std::string> shown(const std::vector<std::string>& stops, const std::vector<std::string>& tokens) {
  TextStream stream = stream_with(stops);
  return shown(stream, tokens);
}

TEST(SpecS8, WithoutStopsTextPassesThrough) {
  EXPECT_THAT(shown({}, {"Hello", ",", " world"}), testing::ElementsAre("Hello", ",", " world", ""));
}

TEST(SpecS8, ACharacterOverFourTokensAppearsWhole) {
  EXPECT_THAT(shown({}, {"a\xF0", "\x9F", "\x98", "\x80z"}), testing::ElementsAre("a", "", "", "😀z", ""));
}

TEST(SpecS8, ACharacterCutAtTheEndBecomesAReplacement) {
  EXPECT_THAT(shown({}, {"a\xF0\x9F", "\x98"}), testing::ElementsAre("a", "", "\uFFFD"));
  EXPECT_THAT(shown({}, {"\xC3"}), testing::ElementsAre("", "\uFFFD"));
}

TEST(SpecS8, BytesThatAreNoCharacterBecomeReplacements) {
  EXPECT_THAT(shown({}, {"a\xFF", "b\x80", "\xED\xA0\x80", "\xC3("}),
              testing::ElementsAre("a\uFFFD", "b\uFFFD", "\uFFFD\uFFFD\uFFFD", "\uFFFD(", ""));
}

TEST(SpecS8, AStopStringInsideATokenEndsTheText) {
  TextStream stream = stream_with({"STOP"});
  EXPECT_EQ(stream.push("one STOP two"), "one ");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.push("three"), "");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.text(), "one ");
}

TEST(SpecS8, AStopStringOverTwoTokensIsNeverShown) {
  TextStream stream = stream_with({"\n\nUser:"});
  EXPECT_THAT(shown(stream, {"yes.\n", "\nUs", "er: no"}), testing::ElementsAre("yes.", "", "", ""));
  EXPECT_TRUE(stream.stopped());
}

TEST(SpecS8, ANearMissIsReleasedWhole) {
  EXPECT_THAT(shown({"abcd"}, {"xab", "c", "e"}), testing::ElementsAre("x", "", "abce", ""));
  EXPECT_THAT(shown({"abcd"}, {"xab", "c"}), testing::ElementsAre("x", "", "abc"));
  EXPECT_THAT(shown({"aab"}, {"aa", "a", "a", "b"}), testing::ElementsAre("", "a", "a", "", ""));
}

TEST(SpecS8, OfTwoStopsOneAPrefixOfTheOtherTheShorterEndsIt) {
  for (const auto& stops : {std::vector<std::string>{"ab", "abc"}, std::vector<std::string>{"abc", "ab"}}) {
    TextStream stream = stream_with(stops);
    EXPECT_EQ(stream.push("xabc"), "x");
    EXPECT_TRUE(stream.stopped());
  }
}

TEST(SpecS8, OfTwoStopsThatEndTogetherTheLongerCounts) {
  for (const auto& stops : {std::vector<std::string>{"bc", "abc"}, std::vector<std::string>{"abc", "bc"}}) {
    EXPECT_EQ(stream_with(stops).push("xabc"), "x");
  }
}

TEST(SpecS8, TheStopThatIsCompleteFirstCounts) { EXPECT_EQ(stream_with({"abcdef", "cd"}).push("xabcdef"), "xab"); }

TEST(SpecS8, AStopOfSeveralByteCharactersMayBeCutAnywhere) {
  TextStream stream = stream_with({"é。"});
  EXPECT_THAT(shown(stream, {"a\xC3", "\xA9\xE3\x80", "\x82"}), testing::ElementsAre("a", "", "", ""));
  EXPECT_TRUE(stream.stopped());
  EXPECT_THAT(shown({"é。"}, {"a\xC3", "\xA9\xE3\x80", "\x81"}), testing::ElementsAre("a", "", "é、", ""));
}

TEST(SpecS8, ACutCharacterBeforeAStopBecomesAReplacement) {
  EXPECT_EQ(stream_with({"END"}).push("a\xE3\x80"
                                      "END"),
            "a\uFFFD");
}

TEST(SpecS9, StopsMayChangeBetweenTokens) {
  TextStream stream = stream_with({"abcd"});
  EXPECT_EQ(stream.push("xab"), "x");
  stream.set_stops({"bz"});
  EXPECT_EQ(stream.push("y"), "aby");
  EXPECT_EQ(stream.push("bz!"), "");
  EXPECT_TRUE(stream.stopped());
}

TEST(SpecS9, ANewStopAppliesToTextNotYetReleased) {
  TextStream stream = stream_with({"abcd"});
  EXPECT_EQ(stream.push("xabc"), "x");
  stream.set_stops({"bc"});
  EXPECT_EQ(stream.push(""), "a");
  EXPECT_TRUE(stream.stopped());
}

TEST(SpecS9, ARefusedListChangesNothing) {
  TextStream stream = stream_with({"b"});
  EXPECT_THROW(stream.set_stops({"a", ""}), InputError);
  EXPECT_THROW(stream.set_stops({"\xFF"}), InputError);
  EXPECT_EQ(stream.push("abc"), "a");
  EXPECT_TRUE(stream.stopped());
}

TEST(TextStream, AnyCutOfAnyBytesGivesTheSameTextAndValidUtf8) {
  std::mt19937_64 random(11);
  const std::vector<std::string> stops = {"ab",
                                          "\xC3\xA9"
                                          "a",
                                          "aab"};
  const std::string alphabet = "ab\xC3\xA9\xF0\x9F\x98\x80\xFF";
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) bytes += alphabet[random() % alphabet.size()];
    TextStream whole = stream_with(stops);
    TextStream cut = stream_with(stops);
    std::string expected = whole.push(bytes);
    expected += whole.finish();
    std::string text;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = 1 + random() % 3;
      text += cut.push(std::string_view(bytes).substr(at, length));
      EXPECT_FALSE(find_invalid_utf8(text)) << "half a character was shown";
      at += length;
    }
    text += cut.finish();
    EXPECT_EQ(text, expected);
    EXPECT_EQ(text, cut.text());
    EXPECT_EQ(cut.stopped(), whole.stopped());
  }
}

}  // namespace
}  // namespace kvlab
