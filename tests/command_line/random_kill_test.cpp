// A sweep that is killed at any moment has lost nothing but the round that was running.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "tests/command_line/binary.h"
#include "tests/command_line/sweep_files.h"

namespace kvlab::testing {
namespace {

constexpr int kKills = 60;

/// Rounds that the program said it had finished: "[2/3] …: round 7, …".
std::size_t announced_rounds(const std::string& text) {
  std::size_t n = 0;
  for (const std::string& line : lines_of(text)) {
    if (line.find(": round ") != std::string::npos && line.find("remaining") != std::string::npos) ++n;
  }
  return n;
}

/// Whole lines only: the last one may have been cut off.
std::string whole_lines(const std::string& text) { return text.substr(0, text.rfind('\n') + 1); }

TEST(RandomKill, LosesNothingButTheRunningRound) {
  const Folder folder;
  const std::string config = small_sweep(folder, R"({"min": 1000000, "max": 1000000})");
  const std::string out = folder_with_ceilings(folder);
  std::mt19937 random(20);
  std::uniform_real_distribution<double> moment_s(0.0, 0.4);
  std::string stored;
  std::size_t in_the_middle = 0;  // kills that came after the first round of a start and so could lose one
  for (int i = 0; i < kKills; ++i) {
    const double wait_s = moment_s(random);
    const Finished run = kvlab({"sweep", config, "--out", out, "--resume", "--threads", "1"}, "", [&](pid_t sweep) {
      std::this_thread::sleep_for(std::chrono::duration<double>(wait_s));
      kill(sweep, SIGKILL);
    });
    ASSERT_EQ(run.exit_code, -1) << run.err;
    const std::string now = whole_lines(read_file(out + "/results.jsonl"));
    ASSERT_EQ(now.substr(0, stored.size()), stored) << "kill " << i << " changed rounds that were stored before";
    const std::size_t added = lines_of(now.substr(stored.size())).size();
    const std::size_t announced = announced_rounds(run.err);
    EXPECT_GE(added, announced) << "kill " << i << " lost a finished round";
    EXPECT_LE(added, announced + 1) << "kill " << i;
    in_the_middle += announced > 0 ? 1 : 0;
    stored = now;
  }
  EXPECT_GE(in_the_middle, 1U) << "every kill came before the first round: the machine is too slow for this test";

  const Finished last = kvlab({"sweep", small_sweep(folder, R"({"min": 1, "max": 1000000, "budget_s": 0})"), "--out",
                               out, "--resume", "--threads", "1"});
  ASSERT_EQ(last.exit_code, 0) << last.err;
  std::map<std::string, std::set<int>> rounds;
  for (const std::string& text : lines_of(read_file(out + "/results.jsonl"))) {
    const nlohmann::json line = nlohmann::json::parse(text);
    EXPECT_EQ(line["status"], "ok");
    EXPECT_TRUE(rounds[line["case"].dump()].insert(line["round"].get<int>()).second) << "a round was run twice";
  }
  ASSERT_EQ(rounds.size(), 3U);
  for (const nlohmann::json report = report_of(out); const auto& row : report["results"]) {
    const std::set<int>& own = rounds.at(row["case"].dump());
    EXPECT_EQ(*own.rbegin(), static_cast<int>(own.size()) - 1) << "a round is missing";
    EXPECT_EQ(row["samples"]["ttft_s"].size(), own.size());
  }
}

}  // namespace
}  // namespace kvlab::testing
