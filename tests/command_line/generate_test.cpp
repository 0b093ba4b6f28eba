// `kvlab generate` and `score` end to end, against answers of an independent float64 program.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/command_line/binary.h"

namespace kvlab::testing {
namespace {

struct Golden {
  std::vector<int> prompt;
  std::vector<int> greedy;
  std::vector<double> logits;
};

Golden golden() {
  const auto json = nlohmann::json::parse(read_file(kLlama + "/expected.json"));
  return {json.at("prompt_ids"), json.at("greedy"), json.at("logits_last")};
}

Finished generate(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"generate",     "--model", kLlama, "--prompt-ids", joined(golden().prompt),
                                        "--ignore-eos", "--json",  "-"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return kvlab(arguments);
}

std::vector<int> tokens(const Finished& run) {
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.json()["tokens"];
}

TEST(Generate, JsonOnStandardOutputIsPureAndHasTheFixedKeys) {
  const Finished run = generate({"--max-new-tokens", "4"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json json = run.json();
  EXPECT_EQ(json.size(), 4U);
  EXPECT_EQ(json["prompt_ids"], golden().prompt);
  EXPECT_EQ(json["tokens"].size(), 4U);
  EXPECT_TRUE(json["text"].is_null());
  EXPECT_EQ(json["stop_reason"], "max_new_tokens");
}

TEST(Generate, GivesTheGoldenTokensInEveryCache) {
  const std::vector<int> expected = golden().greedy;
  for (const std::string cache : {"none", "contiguous", "paged", "qkv"}) {
    EXPECT_EQ(tokens(generate({"--max-new-tokens", std::to_string(expected.size()), "--cache", cache})), expected)
        << cache;
  }
}

TEST(Generate, WritesTheLogitsOfThePromptsLastRow) {
  const Folder folder;
  const std::string file = folder.path("logits.json");
  for (const std::string n_tokens : {"0", "2"}) {
    ASSERT_EQ(generate({"--max-new-tokens", n_tokens, "--logits-out", file}).exit_code, 0);
    const std::vector<double> logits = nlohmann::json::parse(read_file(file));
    const std::vector<double> expected = golden().logits;
    ASSERT_EQ(logits.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(std::abs(logits[i] - expected[i]) <= 1e-3) << i;
  }
}

TEST(Generate, ZeroTokensAreAllowed) {
  const Finished run = generate({"--max-new-tokens", "0"});
  EXPECT_TRUE(tokens(run).empty());
  EXPECT_EQ(run.json()["stop_reason"], "max_new_tokens");
}

TEST(Generate, StreamsIdsWithoutATokenizer) {
  const Finished run = kvlab({"generate", "--model", kLlama, "--prompt-ids", joined(golden().prompt), "--ignore-eos",
                              "--max-new-tokens", "3"});
  const std::vector<int> greedy = golden().greedy;
  EXPECT_EQ(run.out, fmt::format("{} {} {}", greedy[0], greedy[1], greedy[2]));
  EXPECT_THAT(run.err, ::testing::HasSubstr("max_new_tokens"));
}

TEST(SpecS9, TokensBeforeAChangeEqualThoseOfTheUnchangedRun) {
  const std::vector<int> unchanged = tokens(generate({"--max-new-tokens", "24"}));
  const std::vector<int> changed =
      tokens(generate({"--max-new-tokens", "24", "--at", "10:temperature=50", "--seed", "3"}));
  ASSERT_EQ(changed.size(), 24U);
  EXPECT_EQ(std::vector<int>(changed.begin(), changed.begin() + 10),
            std::vector<int>(unchanged.begin(), unchanged.begin() + 10));
  EXPECT_NE(changed, unchanged);
}

TEST(SpecS9, TheTokenLimitCanChangeOnTheWay) {
  EXPECT_EQ(tokens(generate({"--max-new-tokens", "20", "--at", "4:max-new-tokens=6"})).size(), 6U);
  EXPECT_EQ(tokens(generate({"--max-new-tokens", "5", "--at", "4:max-new-tokens=9"})).size(), 9U);
}

TEST(SpecS7, TheSameSeedGivesTheSameTokens) {
  const std::vector<std::string> flags = {"--max-new-tokens", "16", "--temperature", "2",
                                          "--top-k",          "40", "--seed",        "5"};
  EXPECT_EQ(tokens(generate(flags)), tokens(generate(flags)));
}

TEST(Score, MeansTheSameWithAndWithoutACache) {
  std::vector<int> ids = golden().prompt;
  double whole = 0;
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--cache", "none"}, {"--cache", "contiguous"}, {"--cache", "paged", "--prefill-chunk", "5"}}) {
    std::vector<std::string> arguments = {"score", "--model", kLlama, "--prompt-ids", joined(ids), "--json", "-"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished run = kvlab(arguments);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const double nll = run.json()["mean_nll"];
    EXPECT_EQ(run.json()["n_tokens"], ids.size());
    EXPECT_NEAR(run.json()["perplexity"], std::exp(nll), 1e-9 * std::exp(nll));
    if (whole == 0) whole = nll;
    EXPECT_TRUE(std::abs(nll - whole) <= 1e-5) << nll << " " << whole;
  }
}

TEST(Score, TheSecondTokenAloneFollowsFromTheFirstLogits) {
  const Folder folder;
  const std::string file = folder.path("logits.json");
  ASSERT_EQ(kvlab({"generate", "--model", kLlama, "--prompt-ids", "1", "--max-new-tokens", "0", "--logits-out", file})
                .exit_code,
            0);
  const std::vector<double> logits = nlohmann::json::parse(read_file(file));
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  const Finished run = kvlab({"score", "--model", kLlama, "--prompt-ids", "1,60", "--json", "-"});
  EXPECT_NEAR(run.json()["mean_nll"], std::log(sum) - logits[60], 1e-5);
}

TEST(Verify, AcceptsEveryVariantOfATinyModel) {
  const Finished run = kvlab({"verify", "--model", kLlama});
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_THAT(run.out, ::testing::HasSubstr(" variants, 0 failed\n"));
  EXPECT_THAT(run.out, ::testing::HasSubstr("qkv fused+naive mha"));
  EXPECT_EQ(run.out.find("FAILED"), std::string::npos);
}

TEST(Verify, StartsFromTheGivenFlags) {
  const Finished run = kvlab({"verify", "--model", kLlama, "--kv-dtype", "bf16", "--gen-tokens", "3"});
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_THAT(run.out, ::testing::HasSubstr("paged naive model kv_dtype=bf16"));
  EXPECT_THAT(run.out, ::testing::HasSubstr("twice naive bf16"));
}

}  // namespace
}  // namespace kvlab::testing
