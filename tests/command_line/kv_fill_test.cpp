// --kv-fill random through the command line: tokens that no variant changes, the mark in the report, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/command_line/binary.h"

namespace kvlab::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

const std::vector<std::string> kAtDepth = {"run", "--model",      "tiny", "--depth", "61", "--prompt-tokens",
                                           "2",   "--gen-tokens", "6",    "--batch", "2",  "--rounds",
                                           "1",   "--json",       "-",    "--quiet"};
const std::vector<std::string> kDrawn = with(kAtDepth, {"--kv-fill", "random"});

/// The one result of a run that succeeded.
json result_of(const std::vector<std::string>& arguments) {
  const Finished run = kvlab(arguments);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const json result = run.json()["results"][0];
  EXPECT_EQ(result["status"], "ok") << result["reason"];
  return result;
}

TEST(KvFill, NoVariantChangesTheTokensOfDrawnKAndV) {
  const Folder folder;
  write_file(folder.path("sweep.json"), R"({"name": "variants", "models": ["tiny"],
    "axes": {"cache": ["contiguous", "paged", "qkv"], "page_size": [7], "attention": ["naive", "fused"],
             "execution": ["eager", "graph"], "prefill_chunk": [0, 1], "heads": ["model", "mha"],
             "kv_fill": ["random"], "depth": [61], "prompt_tokens": [2], "gen_tokens": [6], "batch": [2]},
    "rounds": {"min": 1, "max": 1}})");
  const Finished sweep = kvlab({"sweep", folder.path("sweep.json"), "--out", folder.path("out"), "--quiet"});
  ASSERT_EQ(sweep.exit_code, 0) << sweep.err;
  const json report = json::parse(read_file(folder.path("out/report.json")));
  ASSERT_EQ(report["results"].size(), 48U);
  std::set<std::string> tokens;
  for (const json& result : report["results"]) {
    SCOPED_TRACE(result["case"]["variant"].dump());
    EXPECT_EQ(result["status"], "ok") << result["reason"];
    tokens.insert(result["output"]["tokens_sha256"].get<std::string>());
    // Two sequences of two prompt tokens, and all that they see: no pass brought the depth.
    EXPECT_EQ(result["samples"]["step_rows"], json({4, 2, 2, 2, 2, 2}));
    EXPECT_EQ(result["samples"]["step_dots"][0], 2 * (62 + 63));
    EXPECT_EQ(result["samples"]["step_dots"][1], 2 * 64);
  }
  EXPECT_EQ(tokens.size(), 1U);
  EXPECT_EQ(tokens.count(result_of(with(kDrawn, {"--seed", "2"}))["output"]["tokens_sha256"].get<std::string>()), 0U);
  EXPECT_EQ(tokens.count(result_of(kAtDepth)["output"]["tokens_sha256"].get<std::string>()), 0U);
}

TEST(KvFill, TheReportAndItsTableSayWhatWasDrawn) {
  EXPECT_EQ(result_of(kAtDepth)["case"]["workload"]["kv_fill"], "prefill");
  const Finished table = kvlab({"run", "--model", "tiny", "--depth", "8", "--kv-fill", "random", "--prompt-tokens", "1",
                                "--gen-tokens", "2", "--rounds", "1", "--kv-dtype", "bf16", "--quiet"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("random K and V"));
}

TEST(KvFill, WrongUseIsRefusedInOneSentence) {
  const auto refusal = [](const std::vector<std::string>& arguments) {
    const Finished run = kvlab(arguments);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    return run.err;
  };
  EXPECT_THAT(refusal(with(kDrawn, {"--cache", "none"})), HasSubstr("use contiguous, qkv or paged"));
  EXPECT_THAT(refusal(with(kAtDepth, {"--kv-fill", "zeros"})), HasSubstr("allowed are prefill, random"));
  EXPECT_THAT(refusal({"run", "--model", "tiny", "--kv-fill", "random", "--prompt-tokens", "1", "--gen-tokens", "2"}),
              HasSubstr("the depth is 0"));
}

TEST(KvFill, ASweepCrossesItWithOtherAxes) {
  const Folder folder;
  write_file(folder.path("sweep.json"), R"({"name": "fill", "models": ["tiny"],
    "axes": {"cache": ["contiguous", "paged"], "depth": [0, 40], "kv_fill": ["prefill", "random"],
             "prompt_tokens": [1], "gen_tokens": [3]},
    "rounds": {"min": 1, "max": 1}})");
  const Finished sweep = kvlab({"sweep", folder.path("sweep.json"), "--out", folder.path("out"), "--quiet"});
  ASSERT_EQ(sweep.exit_code, 0) << sweep.err;
  const json report = json::parse(read_file(folder.path("out/report.json")));
  ASSERT_EQ(report["results"].size(), 6U);              // at depth 0 there is nothing to draw
  std::map<std::string, std::set<std::string>> tokens;  // of each workload
  for (const json& result : report["results"]) {
    EXPECT_EQ(result["status"], "ok") << result["reason"];
    tokens[result["case"]["workload"].dump()].insert(result["output"]["tokens_sha256"].get<std::string>());
  }
  EXPECT_EQ(tokens.size(), 3U);
  for (const auto& [workload, hashes] : tokens) EXPECT_EQ(hashes.size(), 1U) << workload;
}

}  // namespace
}  // namespace kvlab::testing
