// Composition against examples of the Unicode Standard (Annex 15, chapters 3.11 and 3.12).
#include "model/tokenizer/nfc.h"

#include <gtest/gtest.h>

namespace kvlab {
namespace {

TEST(Nfc, ComposesALetterAndItsMark) {
  EXPECT_EQ(compose_nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(compose_nfc("A\u030A"), "\u00C5");
}

TEST(Nfc, OrdersMarksBeforeItComposes) {
  EXPECT_EQ(compose_nfc("s\u0307\u0323"), "\u1E69");
  EXPECT_EQ(compose_nfc("\u1E0B\u0323"), "\u1E0D\u0307");
  EXPECT_EQ(compose_nfc("q\u0307\u0323"), "q\u0323\u0307");
}

TEST(Nfc, ReplacesCharactersThatStandForOthers) {
  EXPECT_EQ(compose_nfc("\u212B\u2126"), "\u00C5\u03A9");
  EXPECT_EQ(compose_nfc("\U0002F800"), "\u4E3D");
}

TEST(Nfc, LeavesExcludedCompositionsApart) {
  EXPECT_EQ(compose_nfc("\u0958"), "\u0915\u093C");
  EXPECT_EQ(compose_nfc("\u0915\u093C"), "\u0915\u093C");
}

TEST(Nfc, ComposesHangulByArithmetic) {
  EXPECT_EQ(compose_nfc("\u1100\u1161"), "\uAC00");
  EXPECT_EQ(compose_nfc("\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(compose_nfc("\uAC00\u11A8"), "\uAC01");
  EXPECT_EQ(compose_nfc("\uAC01\u11A8"), "\uAC01\u11A8");
}

TEST(Nfc, AMarkBehindAnotherOfItsClassIsBlocked) {
  EXPECT_EQ(compose_nfc("a\u0305\u0301"), "a\u0305\u0301");
  EXPECT_EQ(compose_nfc("a\u0323\u0301"), "\u1EA1\u0301");
}

TEST(Nfc, LeavesComposedTextAlone) {
  for (const char* text : {"", "plain", "naïve façade", "日本語", "한국어", "\u0301e"})
    EXPECT_EQ(compose_nfc(text), text);
}

}  // namespace
}  // namespace kvlab
