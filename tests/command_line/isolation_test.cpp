// A worker that dies, hangs or runs out of memory costs its case; shards merge into the whole.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "tests/command_line/binary.h"
#include "tests/command_line/sweep_files.h"

namespace kvlab::testing {
namespace {

using ::testing::HasSubstr;

struct FaultCase {
  const char* fault;
  const char* status;
  const char* reason;
};

class PlantedFault : public ::testing::TestWithParam<FaultCase> {};

/// The middle one of three cases is struck, in its check or in its second round.
TEST_P(PlantedFault, CostsItsOwnCase) {
  for (const std::string when : {"", "@1"}) {
    const Folder folder;
    const std::string out = folder_with_ceilings(folder);
    const Finished run = kvlab({"sweep", small_sweep(folder, R"({"min": 3, "max": 3, "timeout_s": 2})"), "--out", out,
                                "--resume", "--threads", "1", "--inject-fault", GetParam().fault + when + ":paged"});
    EXPECT_EQ(run.exit_code, 1) << run.err;
    const nlohmann::json results = report_of(out)["results"];
    ASSERT_EQ(results.size(), 3U);
    for (const auto& row : results) {
      const bool struck = row["case"]["variant"]["cache"] == "paged";
      EXPECT_EQ(row["status"], struck ? GetParam().status : "ok") << row["reason"];
      if (struck) {
        EXPECT_THAT(row["reason"].get<std::string>(), HasSubstr(GetParam().reason));
      } else {
        EXPECT_EQ(row["samples"]["ttft_s"].size(), 3U);
      }
    }
    EXPECT_THAT(run.out, HasSubstr(GetParam().reason));
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFault,
                         ::testing::Values(FaultCase{"abort", "crash", "signal 6"},
                                           FaultCase{"segfault", "crash", "signal 11"},
                                           FaultCase{"hang", "timeout", "took longer than 2 s"},
                                           FaultCase{"alloc", "oom", "memory of a fault, 4611686018427387903 bytes"},
                                           FaultCase{"nan", "failed", "nan"}),
                         [](const auto& test) { return std::string(test.param.fault); });

TEST(Isolation, AnUnknownFaultIsRefused) {
  const Folder folder;
  const Finished run =
      kvlab({"sweep", small_sweep(folder), "--out", folder.path("out"), "--inject-fault", "earthquake"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("segfault"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
}

TEST(Isolation, AnEndedCaseStaysEndedWhenResumed) {
  const Folder folder;
  const std::string config = small_sweep(folder);
  const std::string out = folder_with_ceilings(folder);
  const std::vector<std::string> arguments = {"sweep", config, "--out", out, "--resume", "--threads", "1"};
  std::vector<std::string> with_fault = arguments;
  with_fault.insert(with_fault.end(), {"--inject-fault", "abort@1:paged"});
  EXPECT_EQ(kvlab(with_fault).exit_code, 1);
  EXPECT_EQ(kvlab(arguments).exit_code, 1);
  const nlohmann::json results = report_of(out)["results"];
  EXPECT_EQ(results[2]["status"], "crash");
  EXPECT_EQ(results[0]["status"], "ok");
}

TEST(Isolation, WhatDoesNotFitIsSkippedBeforeItIsAllocated) {
  const Folder folder;
  const std::string config = folder.path("sweep.json");
  write_file(config, R"({"name": "huge", "models": ["toy"],
      "axes": {"batch": [1, 2000000000], "prompt_tokens": [4], "gen_tokens": [2]}, "rounds": {"min": 1, "max": 1}})");
  const std::string out = folder_with_ceilings(folder);
  const Finished run = kvlab({"sweep", config, "--out", out, "--resume", "--threads", "1"});
  const nlohmann::json results = report_of(out)["results"];
  EXPECT_EQ(results[0]["status"], "ok");
  EXPECT_EQ(results[1]["status"], "skipped");
  EXPECT_THAT(results[1]["reason"].get<std::string>(), ::testing::ContainsRegex("needs [0-9.]+ GB.* GB available"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(Isolation, AWorkerThatSomebodyKillsIsReplaced) {
  const Folder folder;
  const std::string config = small_sweep(folder, R"({"min": 400, "max": 400})");
  const std::string out = folder_with_ceilings(folder);
  const Finished run = kvlab({"sweep", config, "--out", out, "--resume", "--threads", "1"}, "", [&](pid_t sweep) {
    wait_for_lines(out, 20);
    const std::string children = read_file(fmt::format("/proc/{0}/task/{0}/children", sweep));
    ASSERT_FALSE(children.empty());
    kill(std::stoi(children), SIGKILL);
  });
  EXPECT_EQ(run.exit_code, 1) << run.err;
  int crashed = 0;
  for (const nlohmann::json report = report_of(out); const auto& row : report["results"]) {
    if (row["status"] == "ok") {
      EXPECT_EQ(row["samples"]["ttft_s"].size(), 400U);
    } else {
      EXPECT_EQ(row["status"], "crash");
      EXPECT_THAT(row["reason"].get<std::string>(), HasSubstr("signal 9"));
      ++crashed;
    }
  }
  EXPECT_EQ(crashed, 1);
}

/// OpenMP ties the sweep itself to one core when these variables are set; its worker must not inherit that.
TEST(TwoThreads, AWorkerOfABoundSweepMayUseBothCores) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "needs two cores";
  const Folder folder;
  const std::string out = folder_with_ceilings(folder);
  std::set<std::string> cores;  // that the threads of the worker are tied to
  kvlab(
      {"sweep", small_sweep(folder, R"({"min": 1000000, "max": 1000000})"), "--out", out, "--resume", "--threads", "2"},
      "",
      [&](pid_t sweep) {
        wait_for_lines(out, 5);
        const int worker = std::stoi(read_file(fmt::format("/proc/{0}/task/{0}/children", sweep)));
        for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", worker))) {
          for (const std::string& line : lines_of(read_file(thread.path() / "status"))) {
            if (line.starts_with("Cpus_allowed_list:")) cores.insert(line);
          }
        }
        kill(sweep, SIGINT);
      },
      {{"OMP_NUM_THREADS", "2"}, {"OMP_PROC_BIND", "true"}, {"OMP_PLACES", "cores"}});
  EXPECT_GE(cores.size(), 2U);
}

TEST(Isolation, AnInterruptEndsAWorkerThatHangs) {
  const Folder folder;
  const std::string out = folder_with_ceilings(folder);
  const Finished run = kvlab(
      {"sweep", small_sweep(folder), "--out", out, "--resume", "--threads", "1", "--inject-fault", "hang@1:paged"}, "",
      [&](pid_t sweep) {
        wait_for_lines(out, 5);
        kill(sweep, SIGTERM);
      });
  EXPECT_EQ(run.exit_code, 130) << run.err;
  const nlohmann::json results = report_of(out)["results"];
  EXPECT_EQ(results[2]["samples"]["ttft_s"].size(), 1U);
}

TEST(Isolation, TwoSweepsDoNotWriteOneFolder) {
  const Folder folder;
  const std::string config = small_sweep(folder, R"({"min": 1000000, "max": 1000000})");
  const std::string out = folder_with_ceilings(folder);
  kvlab({"sweep", config, "--out", out, "--resume", "--threads", "1"}, "", [&](pid_t sweep) {
    wait_for_lines(out, 1);
    const Finished second = kvlab({"sweep", config, "--out", out, "--resume", "--threads", "1"});
    EXPECT_EQ(second.exit_code, 2);
    EXPECT_THAT(second.err, HasSubstr("another sweep is writing"));
    kill(sweep, SIGINT);
  });
}

TEST(Isolation, QuietSaysNothingButTheTable) {
  const Folder folder;
  const Finished run = kvlab(
      {"sweep", small_sweep(folder), "--out", folder_with_ceilings(folder), "--resume", "--threads", "1", "--quiet"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, HasSubstr("report.json"));
}

TEST(Shards, AreAPartitionAndMergeIntoTheWhole) {
  const Folder folder;
  const std::string config = small_sweep(folder);
  std::set<std::string> seen;
  std::vector<std::string> merge = {"merge"};
  for (const std::string shard : {"1", "2"}) {
    const std::string out = folder_with_ceilings(folder, "part" + shard);
    const Finished run = kvlab({"sweep", config, "--out", out, "--resume", "--threads", "1", "--shard", shard + "/2"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    for (const nlohmann::json report = report_of(out); const auto& row : report["results"])
      EXPECT_TRUE(seen.insert(row["case"].dump()).second);
    merge.push_back(out);
  }
  EXPECT_EQ(seen.size(), 3U);

  const std::string whole = folder.path("whole");
  std::vector<std::string> arguments = merge;
  arguments.insert(arguments.end(), {"--out", whole});
  const Finished merged = kvlab(arguments);
  ASSERT_EQ(merged.exit_code, 0) << merged.err;
  const nlohmann::json report = report_of(whole);
  ASSERT_EQ(report["results"].size(), 3U);
  EXPECT_EQ(report["results"][0]["case"]["variant"]["cache"], "none");  // in the order of the sweep file
  EXPECT_EQ(report["results"][2]["case"]["variant"]["cache"], "paged");
  EXPECT_EQ(report["results"][1]["samples"], report_of(merge[2])["results"][0]["samples"]);
  EXPECT_EQ(lines_of(read_file(whole + "/results.jsonl")).size(), 6U);

  const Finished resumed = kvlab({"sweep", config, "--out", whole, "--resume", "--threads", "1"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(lines_of(read_file(whole + "/results.jsonl")).size(), 6U);
}

TEST(Shards, WrongMergesAreRefused) {
  const Folder folder;
  const std::string config = small_sweep(folder);
  const std::string out = folder_with_ceilings(folder);
  ASSERT_EQ(kvlab({"sweep", config, "--out", out, "--resume", "--threads", "1"}).exit_code, 0);
  const auto refused = [&](const std::vector<std::string>& folders, const std::string& why) {
    std::vector<std::string> arguments = {"merge"};
    arguments.insert(arguments.end(), folders.begin(), folders.end());
    arguments.insert(arguments.end(), {"--out", folder.path("whole")});
    const Finished run = kvlab(arguments);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, HasSubstr(why));
    EXPECT_FALSE(std::filesystem::exists(folder.path("whole")));
  };
  refused({out, out}, "both hold");
  refused({folder.path("nothing")}, "holds no report.json");
  EXPECT_EQ(kvlab({"merge", out, "--out", out}).exit_code, 2);

  nlohmann::json other = report_of(out);
  other["sweep"]["name"] = "another";
  std::filesystem::create_directory(folder.path("other"));
  write_file(folder.path("other/report.json"), other.dump());
  refused({out, folder.path("other")}, "different sweep files");
  for (const char* shard : {"0/2", "3/2", "1", "a/b", "4/4"}) {
    EXPECT_EQ(kvlab({"sweep", config, "--out", folder.path("s"), "--shard", shard}).exit_code, 2) << shard;
  }
}

}  // namespace
}  // namespace kvlab::testing
