// `kvlab run` and `kvlab sweep` end to end: reports, resuming, interruption.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/command_line/binary.h"
#include "tests/command_line/sweep_files.h"

namespace kvlab::testing {
namespace {

using ::testing::HasSubstr;

/// 3 cases of 2 rounds.
std::string sweep_file(const Folder& folder, const std::string& rounds = R"({"min": 2, "max": 2, "budget_s": 0})") {
  const std::string path = folder.path("sweep.json");
  write_file(path, fmt::format(R"({{"name": "small", "models": ["{}"],
      "axes": {{"cache": ["none", "contiguous"], "prompt_tokens": [4, 8], "gen_tokens": [3]}},
      "exclude": [{{"cache": "none", "prompt_tokens": 8}}], "rounds": {}}})",
                               kLlama, rounds));
  return path;
}

TEST(Sweep, WritesAReportAndResumesWhatIsMissing) {
  const Folder folder;
  const std::string config = sweep_file(folder);
  const std::string out = folder.path("out");
  const Finished first = kvlab({"sweep", config, "--out", out, "--threads", "1"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr(out + "/report.json"));
  EXPECT_THAT(first.err, HasSubstr("remaining"));
  const nlohmann::json report = report_of(out);
  EXPECT_EQ(report["schema"], "kvlab.report/1");
  ASSERT_EQ(report["results"].size(), 3U);
  for (const auto& result : report["results"]) {
    EXPECT_EQ(result["samples"]["ttft_s"].size(), 2U);
    EXPECT_EQ(result["samples"]["step_s"][0].size(), 2U);
  }
  EXPECT_EQ(report["results"][0]["output"]["tokens_sha256"], report["results"][1]["output"]["tokens_sha256"]);
  const std::string stored = read_file(out + "/results.jsonl");
  const std::vector<std::string> lines = lines_of(stored);
  ASSERT_EQ(lines.size(), 6U);
  for (const char* key : {"case", "round", "status", "samples"})
    EXPECT_TRUE(nlohmann::json::parse(lines[0]).contains(key));

  const Finished again = kvlab({"sweep", config, "--out", out, "--threads", "1"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr(out));
  EXPECT_THAT(again.err, HasSubstr("--resume"));

  // Killed in the middle of the last line, with an earlier line gone.
  write_file(out + "/results.jsonl",
             lines[0] + "\n" + lines[1] + "\n" + lines[2] + "\n" + lines[4] + "\n" + lines[5].substr(0, 50));
  std::filesystem::remove(out + "/report.json");
  const auto ceilings = read_file(out + "/ceilings.json");
  const Finished resumed = kvlab({"sweep", config, "--out", out, "--threads", "1", "--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(lines_of(read_file(out + "/results.jsonl")).size(), 6U);
  EXPECT_EQ(read_file(out + "/ceilings.json"), ceilings);
  const nlohmann::json whole = report_of(out);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(whole["results"][i]["samples"]["ttft_s"].size(), 2U);
    EXPECT_EQ(whole["results"][i]["output"], report["results"][i]["output"]);
    EXPECT_EQ(whole["results"][i]["metrics"]["work"], report["results"][i]["metrics"]["work"]);
  }
  EXPECT_EQ(whole["results"][0]["samples"]["ttft_s"][0], report["results"][0]["samples"]["ttft_s"][0]);
}

TEST(Sweep, ABrokenLineIsNamed) {
  const Folder folder;
  const std::string config = sweep_file(folder);
  std::filesystem::create_directory(folder.path("out"));
  write_file(folder.path("out/results.jsonl"), "{\"case\": 1}\nnonsense\n");
  const Finished run = kvlab({"sweep", config, "--out", folder.path("out"), "--resume"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("results.jsonl line 2"));
}

TEST(Sweep, InterruptedItLeavesAValidReport) {
  const Folder folder;
  const std::string config = sweep_file(folder, R"({"min": 1000000, "max": 1000000})");
  const std::string out = folder.path("out");
  const Finished run = kvlab({"sweep", config, "--out", out, "--threads", "1"}, "", [&](pid_t process) {
    for (int i = 0; i < 2000 && lines_of(read_file(out + "/results.jsonl")).size() < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    kill(process, SIGINT);
  });
  EXPECT_EQ(run.exit_code, 130) << run.err;
  const nlohmann::json report = report_of(out);
  ASSERT_EQ(report["results"].size(), 3U);
  EXPECT_GE(report["results"][0]["samples"]["ttft_s"].size(), 1U);
}

TEST(Sweep, DryRunPrintsTheCasesAndWritesNothing) {
  const Folder folder;
  const Finished run = kvlab({"sweep", sweep_file(folder), "--dry-run", "--out", folder.path("out")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("GFLOP"));
  EXPECT_THAT(run.out, HasSubstr("3 cases"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
}

TEST(Sweep, WrongRequestsWriteNothing) {
  const Folder folder;
  const std::string config = sweep_file(folder);
  EXPECT_EQ(kvlab({"sweep", config}).exit_code, 2);
  EXPECT_EQ(kvlab({"sweep", config, "--out", folder.path("out"), "--filter", "cache=ring"}).exit_code, 2);
  EXPECT_EQ(kvlab({"sweep", config, "--out", folder.path("out"), "--filter", "cache=paged"}).exit_code, 2);
  EXPECT_EQ(kvlab({"sweep", config, "--out", config}).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
}

TEST(Run, JsonOnStandardOutputIsAReportWithOneResult) {
  const Finished run = kvlab({"run", "--model", kLlama, "--prompt-tokens", "4", "--gen-tokens", "4", "--rounds", "2",
                              "--threads", "1", "--cache", "none", "--json", "-"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json report = run.json();
  EXPECT_EQ(report["schema"], "kvlab.report/1");
  ASSERT_EQ(report["results"].size(), 1U);
  const nlohmann::json& result = report["results"][0];
  EXPECT_EQ(result["samples"]["step_rows"], (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(result["metrics"]["kv"]["used_bytes"], 0);
  EXPECT_EQ(result["samples"]["ttft_s"].size(), 2U);
}

}  // namespace
}  // namespace kvlab::testing
