// Lines of the specification that are about a report, from reports that the program itself wrote.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/command_line/binary.h"
#include "tests/command_line/sweep_files.h"

namespace kvlab::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// One result of `kvlab run --model toy`, and what the terminal showed.
struct Shown {
  json result;
  std::string table;
};

Shown run_toy(std::vector<std::string> flags) {
  const Folder folder;
  const std::string path = folder.path("report.json");
  std::vector<std::string> words = {"run", "--model", "toy", "--threads", "1", "--rounds", "2", "--json", path};
  words.insert(words.end(), flags.begin(), flags.end());
  const Finished run = kvlab(words);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return {json::parse(read_file(path)).at("results").at(0), run.out};
}

/// The one result of a sweep of the toy over `axes`, which does not look at the machine's ceilings.
json swept_toy(const std::string& axes) {
  const Folder folder;
  write_file(
      folder.path("sweep.json"),
      fmt::format(R"({{"name": "toy", "models": ["toy"], "axes": {}, "rounds": {{"min": 1, "max": 1}}}})", axes));
  const std::string out = folder_with_ceilings(folder);
  const Finished run = kvlab({"sweep", folder.path("sweep.json"), "--out", out, "--resume", "--threads", "1"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const json results = report_of(out).at("results");
  EXPECT_EQ(results.size(), 1U);
  return results.at(0);
}

TEST(SpecS14, AChatSaysWhatShareOfTheTimeIsDecode) {
  const Shown chat = run_toy({"--prompt-tokens", "100", "--gen-tokens", "500"});
  const json& samples = chat.result["samples"];
  const json& latency = chat.result["metrics"]["latency"];
  std::vector<double> shares;
  for (std::size_t round = 0; round < 2; ++round) {
    const auto steps = samples["step_s"][round].get<std::vector<double>>();
    ASSERT_EQ(steps.size(), 499U);
    const double decode_s = std::accumulate(steps.begin(), steps.end(), 0.0);
    shares.push_back(decode_s / (samples["ttft_s"][round].get<double>() + decode_s));
  }
  const double share = latency["decode_share"];
  EXPECT_NEAR(share, (shares[0] + shares[1]) / 2, 1e-12);
  EXPECT_NEAR(latency["prefill_share"].get<double>(), 1 - share, 1e-12);
  EXPECT_THAT(chat.table, HasSubstr("decode %"));
  EXPECT_THAT(chat.table, HasSubstr(fmt::format(" {:.1f} ", 100 * share)));
  EXPECT_TRUE(latency["step_slope_s_per_token"]["value"].is_number());
}

TEST(SpecS14, ASweepOverPromptLengthsFitsAParabola) {
  const Folder folder;
  const std::string sweep = folder.path("sweep.json");
  const std::string out = folder_with_ceilings(folder);
  write_file(sweep, R"({"name": "lengths", "models": ["toy"],
      "axes": {"cache": ["contiguous", "none"], "prompt_tokens": {"from": 64, "to": 1024, "times": 2},
               "gen_tokens": [1]},
      "exclude": [{"cache": "none", "prompt_tokens": 512}, {"cache": "none", "prompt_tokens": 1024}],
      "rounds": {"min": 2, "max": 2, "budget_s": 0}})");
  const Finished run = kvlab({"sweep", sweep, "--out", out, "--resume", "--threads", "1"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json report = report_of(out);
  ASSERT_EQ(report["fits"].size(), 1U) << "three lengths without a cache are too few";
  const json& fit = report["fits"][0];
  EXPECT_EQ(fit["prompt_tokens"], (std::vector<int>{64, 128, 256, 512, 1024}));
  EXPECT_LT(fit["c_s_per_token2"]["low"], fit["c_s_per_token2"]["high"]);
  for (const json& result : report["results"]) {
    const json& lengths = fit["prompt_tokens"];
    const auto at = std::find(lengths.begin(), lengths.end(), result["case"]["workload"]["prompt_tokens"]);
    if (result["case"]["variant"]["cache"] == "none") continue;
    EXPECT_EQ(fit["attention_share"][static_cast<std::size_t>(at - lengths.begin())],
              result["metrics"]["prefill"]["attention_share"]);
  }
  EXPECT_THAT(run.out, HasSubstr("prefill of n tokens takes a + b n + c n^2 (toy, contiguous fused model"));
}

TEST(SpecS20, OnTheCpuNothingCrossesABus) {
  const json result = swept_toy(R"({"prompt_tokens": [5], "gen_tokens": [4], "sampling": ["host"], "batch": [3]})");
  EXPECT_EQ(result["case"]["device"], "cpu");
  const json zero = {{"load", 0}, {"prefill", 0}, {"per_step", 0}};
  EXPECT_EQ(result["metrics"]["transfer"], (json{{"h2d_bytes", zero}, {"d2h_bytes", zero}}));
}

TEST(SpecS22, TheReportHoldsTheToysFlops) {
  const json metrics = swept_toy(R"({"prompt_tokens": [5], "gen_tokens": [2]})")["metrics"];
  EXPECT_EQ(metrics["prefill"]["flops"], 4656);
  EXPECT_EQ(metrics["decode"]["flops"], 1152);
}

TEST(SpecS25, WorkspaceStandsBesideTheBytesThatLiveOn) {
  const std::int64_t tokens = 2 * (5 + 30 - 1);
  const json paged =
      swept_toy(R"({"prompt_tokens": [5], "gen_tokens": [30], "cache": ["paged"], "batch": [2]})")["metrics"]["kv"];
  EXPECT_EQ(paged["bytes_per_token"], 96);
  EXPECT_EQ(paged["theoretical_bytes"], 96 * tokens);
  EXPECT_EQ(paged["used_bytes"], 96 * tokens);
  EXPECT_EQ(paged["reserved_bytes"], 2 * 48 * 96) << "34 tokens take 3 pages of 16";
  EXPECT_EQ(paged["tail_waste_bytes"], 2 * (48 - 34) * 96);
  EXPECT_EQ(paged["reserve_waste_bytes"], 0);
  EXPECT_EQ(paged["table_bytes"], 2 * 3 * 4);
  EXPECT_EQ(paged["peak_bytes"], 2 * 48 * 96 + 2 * 3 * 4);
  EXPECT_GT(paged["workspace_bytes"], 0);
  const json roomy = swept_toy(R"({"prompt_tokens": [5], "gen_tokens": [30], "kv_capacity": [100]})")["metrics"]["kv"];
  EXPECT_EQ(roomy["reserve_waste_bytes"], (100 - 34) * 96);
  EXPECT_EQ(roomy["tail_waste_bytes"], 0);
  EXPECT_EQ(roomy["peak_bytes"], 100 * 96);
}

}  // namespace
}  // namespace kvlab::testing
