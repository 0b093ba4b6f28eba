// S23: what a profiler sees of a run on the CPU: phases, layers and operations, nested, as many as there are.
#include "tests/command_line/profiler_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvlab::testing {
namespace {

#ifdef KVLAB_NVTX_LOG_LIBRARY

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

const std::vector<std::string> kToy = {"--model", "toy", "--prompt-ids", "0,3,7,1,9"};

std::vector<std::string> generate(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"generate", "--max-new-tokens", "4", "--ignore-eos"};
  arguments.insert(arguments.end(), kToy.begin(), kToy.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// What `trace` calls the operations of a layer of the prefill, or those outside the layers (-1).
std::vector<std::string> traced_operations(int layer) {
  std::vector<std::string> arguments = {"trace", "--format", "json"};
  arguments.insert(arguments.end(), kToy.begin(), kToy.end());
  const nlohmann::json trace = kvlab(arguments).json();
  std::vector<std::string> names;
  for (const nlohmann::json& operation : trace["phases"][0]["operations"]) {
    const int of = operation["layer"].is_null() ? -1 : operation["layer"].get<int>();
    const std::string name = operation["operation"];
    if (of == layer && (names.empty() || names.back() != name)) names.push_back(name);
  }
  return names;
}

TEST(ProfilerRanges, PhasesHoldLayersAndLayersHoldTheOperationsThatTraceNames) {
  const SeenRanges seen = profiled_kvlab(generate({}));
  ASSERT_EQ(seen.finished.exit_code, 0) << seen.finished.err;
  EXPECT_TRUE(seen.balanced);
  EXPECT_THAT(seen.below(""), ElementsAre("prefill 5 tokens", "choose token", "decode step 1", "choose token",
                                          "decode step 2", "choose token", "decode step 3", "choose token"));
  const std::vector<std::string> outside = traced_operations(-1);
  ASSERT_THAT(outside, ElementsAre("embedding", "final norm", "LM head"));
  for (const std::string phase : {"prefill 5 tokens", "decode step 1", "decode step 3"}) {
    EXPECT_THAT(seen.below(phase), ElementsAre("embedding", "layer 0", "layer 1", "layer 2", "final norm", "LM head"));
    for (const int layer : {0, 1, 2}) {
      EXPECT_THAT(seen.below(phase + "/layer " + std::to_string(layer)), ElementsAreArray(traced_operations(layer)));
    }
  }
}

TEST(ProfilerRanges, AReplayIsOneRange) {
  const SeenRanges seen = profiled_kvlab(generate({"--execution", "graph"}));
  ASSERT_EQ(seen.finished.exit_code, 0) << seen.finished.err;
  EXPECT_TRUE(seen.balanced);
  EXPECT_THAT(seen.below("decode step 1"), ElementsAre("record graph", "graph replay"));
  EXPECT_THAT(seen.below("decode step 2"), ElementsAre("graph replay"));
  EXPECT_THAT(seen.below("decode step 3"), ElementsAre("graph replay"));
  EXPECT_THAT(seen.below("decode step 2/graph replay"), IsEmpty());
}

TEST(ProfilerRanges, ChunksOfAPrefillAreApart) {
  const SeenRanges seen = profiled_kvlab(generate({"--prefill-chunk", "2"}));
  EXPECT_TRUE(seen.balanced);
  EXPECT_THAT(seen.below("prefill 5 tokens"),
              ElementsAre("chunk from token 0", "chunk from token 2", "chunk from token 4"));
  EXPECT_EQ(seen.count("prefill 5 tokens/chunk from token 2/layer 1/attention"), 1);
}

TEST(ProfilerRanges, EndWithTheErrorThatEndsARun) {
  const SeenRanges seen = profiled_kvlab({"generate", "--model", kLlama, "--prompt-ids", "1,2,99999999"});
  EXPECT_EQ(seen.finished.exit_code, 2);
  EXPECT_TRUE(seen.balanced);
}

TEST(ProfilerRanges, TheVersionSaysThatTheyAreBuiltIn) {
  EXPECT_THAT(kvlab({"--version"}).out, ::testing::HasSubstr("NVTX ranges for profilers: 3"));
}

#else

TEST(ProfilerRanges, TheVersionSaysThatTheyAreNotBuiltIn) {
  EXPECT_THAT(kvlab({"--version"}).out, ::testing::HasSubstr("NVTX ranges for profilers: none"));
}

#endif

}  // namespace
}  // namespace kvlab::testing
