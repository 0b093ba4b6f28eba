// --kv-fill random through the command line: tokens that no variant changes, the mark in the report, and refusals.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/command_line/binary.h"
#include "tests/command_line/sweep_files.h"

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

/// The results of a sweep of the tiny model in which every case succeeded. It does not look at the machine's ceilings.
json swept(const std::string& axes, int seed = 1) {
  const Folder folder;
  write_file(folder.path("sweep.json"), fmt::format(R"({{"name": "fill", "models": ["tiny"], "seed": {}, "axes": {},
                                                        "rounds": {{"min": 1, "max": 1}}}})",
                                                    seed, axes));
  const std::string out = folder_with_ceilings(folder);
  const Finished sweep = kvlab({"sweep", folder.path("sweep.json"), "--out", out, "--resume", "--quiet"});
  EXPECT_EQ(sweep.exit_code, 0) << sweep.err;
  json results = report_of(out)["results"];
  for (const json& result : results) EXPECT_EQ(result["status"], "ok") << result["case"] << result["reason"];
  return results;
}

std::string tokens_of(const json& result) { return result["output"]["tokens_sha256"]; }

TEST(KvFill, NoVariantChangesTheTokensOfDrawnKAndV) {
  const json variants = swept(R"({"cache": ["contiguous", "paged", "qkv"], "page_size": [7],
    "attention": ["naive", "fused"], "execution": ["eager", "graph"], "prefill_chunk": [0, 1],
    "heads": ["model", "mha"], "kv_fill": ["random"], "depth": [61], "prompt_tokens": [2], "gen_tokens": [6],
    "batch": [2]})");
  ASSERT_EQ(variants.size(), 48U);
  std::set<std::string> tokens;
  for (const json& result : variants) {
    SCOPED_TRACE(result["case"]["variant"].dump());
    tokens.insert(tokens_of(result));
    // Two sequences of two prompt tokens, and all that they see: no pass brought the depth.
    EXPECT_EQ(result["samples"]["step_rows"], json({4, 2, 2, 2, 2, 2}));
    EXPECT_EQ(result["samples"]["step_dots"][0], 2 * (62 + 63));
    EXPECT_EQ(result["samples"]["step_dots"][1], 2 * 64);
  }
  EXPECT_EQ(tokens.size(), 1U);
  const std::string same_workload = R"("depth": [61], "prompt_tokens": [2], "gen_tokens": [6], "batch": [2])";
  const json other_seed = swept(R"({"kv_fill": ["random"], )" + same_workload + "}", 2);
  const json prefilled = swept(R"({"kv_fill": ["prefill"], )" + same_workload + "}");
  EXPECT_EQ(tokens.count(tokens_of(other_seed[0])), 0U);
  EXPECT_EQ(tokens.count(tokens_of(prefilled[0])), 0U);
  EXPECT_EQ(prefilled[0]["case"]["workload"]["kv_fill"], "prefill");
}

TEST(KvFill, TheTableOfARunSaysWhatWasDrawn) {
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
  const json results = swept(R"({"cache": ["contiguous", "paged"], "depth": [0, 40], "kv_fill": ["prefill", "random"],
                                 "prompt_tokens": [1], "gen_tokens": [3]})");
  ASSERT_EQ(results.size(), 6U);                        // at depth 0 there is nothing to draw
  std::map<std::string, std::set<std::string>> tokens;  // of each workload
  for (const json& result : results) tokens[result["case"]["workload"].dump()].insert(tokens_of(result));
  EXPECT_EQ(tokens.size(), 3U);
  for (const auto& [workload, hashes] : tokens) EXPECT_EQ(hashes.size(), 1U) << workload;
}

}  // namespace
}  // namespace kvlab::testing
