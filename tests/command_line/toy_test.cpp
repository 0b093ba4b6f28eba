// The worked example (SPEC S13) through the command line: a model folder with a tokenizer of twelve pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/command_line/binary.h"

namespace kvlab::testing {
namespace {

using ::testing::HasSubstr;

TEST(SpecS13, TheToyContinuesWithId5InEveryCache) {
  for (const std::string cache : {"none", "contiguous", "paged", "qkv"}) {
    const Finished run = kvlab({"generate", "--model", "toy", "--prompt", "How are you?", "--max-new-tokens", "1",
                                "--cache", cache, "--json", "-"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.json()["prompt_ids"], (std::vector<int>{0, 3, 7, 1, 9}));
    EXPECT_EQ(run.json()["tokens"], (std::vector<int>{5}));
  }
}

TEST(SpecS13, TheTextThatStreamsIsTheTextOfTheJson) {
  const std::vector<std::string> arguments = {"generate",     "--model",          "toy", "--prompt",
                                              "How are you?", "--max-new-tokens", "6",   "--ignore-eos"};
  const Finished streamed = kvlab(arguments);
  ASSERT_EQ(streamed.exit_code, 0) << streamed.err;
  std::vector<std::string> with_json = arguments;
  with_json.insert(with_json.end(), {"--json", "-"});
  EXPECT_EQ(streamed.out, kvlab(with_json).json()["text"]);
}

TEST(Generate, StopsAtAStringAndLeavesItOut) {
  const std::vector<std::string> arguments = {"generate",         "--model", "toy",          "--prompt", "How are you?",
                                              "--max-new-tokens", "6",       "--ignore-eos", "--json",   "-"};
  const std::string text = kvlab(arguments).json()["text"];
  ASSERT_GE(text.size(), 3U);
  const std::string stop = text.substr(1, 2);
  std::vector<std::string> stopped = arguments;
  stopped.insert(stopped.end(), {"--stop", stop});
  const Finished run = kvlab(stopped);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.json()["stop_reason"], "stop_string");
  EXPECT_EQ(run.json()["text"], text.substr(0, text.find(stop)));
}

TEST(Generate, TheBosIsNotDoubledAndIdsAreTakenAsTheyAre) {
  const Finished ids =
      kvlab({"generate", "--model", "toy", "--prompt-ids", "3,7,1,9", "--max-new-tokens", "0", "--json", "-"});
  EXPECT_EQ(ids.json()["prompt_ids"], (std::vector<int>{3, 7, 1, 9}));
  const Finished empty = kvlab({"generate", "--model", "toy", "--prompt", "", "--max-new-tokens", "1", "--json", "-"});
  ASSERT_EQ(empty.exit_code, 0) << empty.err;
  EXPECT_EQ(empty.json()["prompt_ids"], (std::vector<int>{0}));
}

TEST(Generate, ChatWithoutAChatFormIsRefused) {
  const Finished run = kvlab({"generate", "--model", "toy", "--prompt", "How are you?", "--chat"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--chat"));
}

TEST(Tokenize, PrintsIdsAndPiecesAndReadsStandardInput) {
  const Finished json = kvlab({"tokenize", "--model", "toy", "--json", "How are you?"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(json.json().size(), 2U);
  EXPECT_EQ(json.json()["ids"], (std::vector<int>{3, 7, 1, 9}));
  EXPECT_EQ(json.json()["pieces"].size(), 4U);
  EXPECT_EQ(kvlab({"tokenize", "--model", "toy", "--json", "-"}, "How are you?").out, json.out);
  EXPECT_EQ(kvlab({"tokenize", "--model", "toy", "--json", "--bos", "How are you?"}).json()["ids"][0], 0);
  EXPECT_THAT(kvlab({"tokenize", "--model", "toy", "--explain", "How are you?"}).out, HasSubstr("|"));
}

TEST(Tokenize, InputThatIsNotUtf8IsRefusedWithTheOffset) {
  const Finished run = kvlab({"tokenize", "--model", "toy", "-"}, "How\xff");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("3"));
}

}  // namespace
}  // namespace kvlab::testing
