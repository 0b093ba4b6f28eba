// `run --profile`: which passes a profiler is told to record, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/profile_window.h"
#include "kernels/error.h"
#include "tests/command_line/profiler_ranges.h"

namespace kvlab::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> run_toy(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"run", "--model",      "toy", "--prompt-tokens",
                                        "5",   "--gen-tokens", "8",   "--quiet"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(ProfileWindow, IsThePrefillOrDecodeSteps) {
  EXPECT_EQ(parse_profile_window("prefill"), (ProfileWindow{0, 0}));
  EXPECT_EQ(parse_profile_window("decode:1..1"), (ProfileWindow{1, 1}));
  EXPECT_EQ(parse_profile_window("decode:10..20"), (ProfileWindow{10, 20}));
  EXPECT_NO_THROW(check_profile_window({0, 0}, 1));
  EXPECT_NO_THROW(check_profile_window({7, 7}, 8));
  EXPECT_THROW(check_profile_window({7, 8}, 8), InputError);
  EXPECT_THROW(check_profile_window({1, 1}, 1), InputError);
}

TEST(Profile, OtherFormsAreRefusedWithTheAllowedOnes) {
  for (const std::string wrong : {"", "decode", "decode:", "decode:3", "decode:3-5", "prefill:1..2", "Decode:1..2"}) {
    const Finished run = kvlab(run_toy({"--profile", wrong}));
    EXPECT_EQ(run.exit_code, 2) << wrong;
    EXPECT_THAT(run.err, AllOf(HasSubstr("prefill"), HasSubstr("decode:A..B"))) << wrong;
    EXPECT_THAT(run.out, IsEmpty());
  }
  for (const std::string wrong : {"decode:..", "decode:0..3", "decode:5..4", "decode:1..x", "decode:1..2..3",
                                  "decode:-1..2", "decode:1..99999999999999999999"}) {
    const Finished run = kvlab(run_toy({"--profile", wrong}));
    EXPECT_EQ(run.exit_code, 2) << wrong;
    EXPECT_THAT(run.err, HasSubstr("decode:A..B")) << wrong;
  }
}

TEST(Profile, AWindowBeyondTheLastStepIsRefusedWithBothNumbers) {
  const Finished run = kvlab(run_toy({"--profile", "decode:6..8"}));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("decode:6..8"), HasSubstr("--gen-tokens 8 makes 7 decode steps")));
}

TEST(Profile, MakesNoReport) {
  const Folder folder;
  const Finished run = kvlab(run_toy({"--profile", "prefill", "--json", folder.path("run.json")}));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("makes no report"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("run.json")));
}

TEST(KernelTimes, NeedAGpuAndArePartOfNoOtherRun) {
  const Folder folder;
  const Finished cpu = kvlab(run_toy({"--kernel-times", "--json", folder.path("times.json")}));
  EXPECT_EQ(cpu.exit_code, 2);
  EXPECT_THAT(cpu.err, HasSubstr("kvlab trace"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("times.json")));
  const Finished both = kvlab(run_toy({"--kernel-times", "--profile", "prefill"}));
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("--kernel-times and --profile"));
}

#ifdef KVLAB_NVTX_LOG_LIBRARY

/// The phases that stand in the window.
std::vector<std::string> recorded(const std::string& window) {
  const SeenRanges seen = profiled_kvlab(run_toy({"--profile", window}));
  EXPECT_EQ(seen.finished.exit_code, 0) << seen.finished.err;
  EXPECT_TRUE(seen.balanced);
  EXPECT_THAT(seen.below(""), ElementsAre("output check", "watched round"));
  EXPECT_EQ(seen.count("watched round/profile (registered)"), 1);
  return seen.below("watched round/profile (registered)");
}

TEST(Profile, BracketsThePrefillAlone) {
  EXPECT_THAT(recorded("prefill"), ElementsAre("prefill 5 tokens", "choose tokens"));
}

TEST(Profile, BracketsTheStepsAskedForWithTheLast) {
  EXPECT_THAT(recorded("decode:3..4"), ElementsAre("decode step 3", "choose tokens", "decode step 4", "choose tokens"));
  EXPECT_THAT(recorded("decode:7..7"), ElementsAre("decode step 7", "choose tokens"));
}

TEST(Profile, AMeasuredRunHasNoWindow) {
  const SeenRanges seen = profiled_kvlab(run_toy({"--rounds", "2"}));
  EXPECT_TRUE(seen.balanced);
  EXPECT_THAT(seen.below(""), ElementsAre("empty steps", "output check", "round 1", "round 2", "empty steps"));
  EXPECT_EQ(seen.count("round 2/decode step 7"), 1);
}

#endif

}  // namespace
}  // namespace kvlab::testing
