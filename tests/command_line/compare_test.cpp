// `kvlab compare` on reports of made-up times: verdicts, exit codes, JSON, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/command_line/binary.h"

namespace kvlab::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

/// A row of ten rounds, each off by up to half a per cent; every time is `factor` times what it would be.
json row(const std::string& cache, double factor) {
  json samples = {{"ttft_s", json::array()}, {"prefill_s", json::array()}, {"step_s", json::array()}};
  for (const int round : {3, 9, 1, 7, 0, 5, 2, 8, 4, 6}) {
    const double of_round = factor * (1 + 0.0005 * round);
    samples["ttft_s"].push_back(0.021 * of_round);
    samples["prefill_s"].push_back(0.020 * of_round);
    samples["step_s"].push_back({0.004 * of_round, 0.004 * of_round, 0.005 * of_round});
  }
  return {{"case",
           {{"model", "toy"},
            {"variant", {{"cache", cache}}},
            {"workload", {{"batch", 2}, {"depth", 0}, {"prompt_tokens", 32}, {"gen_tokens", 4}}},
            {"threads", 2}}},
          {"status", "ok"},
          {"reason", nullptr},
          {"samples", samples},
          {"metrics",
           {{"kv",
             {{"bytes_per_token", 96},
              {"used_bytes", 9007199254740993},
              {"reserved_bytes", 4096},
              {"table_bytes", 0},
              {"workspace_bytes", nullptr}}}}},
          {"output", {{"tokens_sha256", "aa"}}}};
}

json report(const std::vector<json>& rows) { return {{"schema", "kvlab.report/1"}, {"results", rows}}; }

class Compare : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const json& content) {
    write_file(folder_.path(name), content.dump());
    return folder_.path(name);
  }
  Finished compare(const json& base, const json& other, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"compare", file("base.json", base), file("new.json", other)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return kvlab(arguments);
  }

  const Folder folder_;
};

json cell(const json& comparison, const std::string& metric) {
  for (const json& found : comparison.at("cells")) {
    if (found.at("metric") == metric) return found;
  }
  return nullptr;
}

TEST_F(Compare, EqualReportsAreTheSame) {
  const json both = report({row("paged", 1), row("none", 1)});
  const Finished run = compare(both, both, {"--json", "-"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const json comparison = run.json();
  EXPECT_EQ(comparison["cells"].size(), 2U * 8U);  // four times; four byte counts, for the fifth is null
  for (const json& found : comparison["cells"]) EXPECT_EQ(found["verdict"], "same") << found;
}

TEST_F(Compare, ASlowdownIsFoundInEveryTimedMetricAndFailsTheGate) {
  const json base = report({row("paged", 1)});
  const Finished run = compare(base, report({row("paged", 1.1)}), {"--fail-above", "5", "--json", "-"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("regression"));
  const json comparison = run.json();
  const json latency = cell(comparison, "latency.step_s.p50");
  EXPECT_NEAR(latency["ratio"].get<double>(), 1.1, 1e-9);
  EXPECT_NEAR(latency["base"].get<double>(), 0.004 * (1 + 0.0005 * 4.5), 0.004 * 0.003);
  EXPECT_LT(latency["low"].get<double>(), 1.1);
  EXPECT_GT(latency["high"].get<double>(), 1.1);
  const json rate = cell(comparison, "prefill.tokens_per_s");
  EXPECT_NEAR(rate["base"].get<double>(), 2 * 32 / (0.020 * (1 + 0.0005 * 4.5)), 1e-6);
  EXPECT_NEAR(rate["ratio"].get<double>(), 1 / 1.1, 1e-9);
  EXPECT_LT(rate["low"].get<double>(), rate["high"].get<double>());
  for (const char* metric :
       {"prefill.tokens_per_s", "decode.tokens_per_s", "latency.step_s.p50", "latency.ttft_s.p50"}) {
    EXPECT_EQ(cell(comparison, metric)["verdict"], "slower") << metric;
    for (const char* key : {"case", "metric", "base", "new", "ratio", "low", "high", "verdict"}) {
      EXPECT_TRUE(cell(comparison, metric).contains(key)) << key;
    }
  }
}

TEST_F(Compare, TheGateHasAThreshold) {
  const json base = report({row("paged", 1)});
  EXPECT_EQ(compare(base, report({row("paged", 1.1)}), {"--fail-above", "11"}).exit_code, 0);
  EXPECT_EQ(compare(base, report({row("paged", 1.1)})).exit_code, 1);
  EXPECT_EQ(compare(base, report({row("paged", 0.9)})).exit_code, 0);
}

TEST_F(Compare, AnImprovementIsFaster) {
  const Finished run = compare(report({row("paged", 1)}), report({row("paged", 0.8)}));
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("4 faster"));
}

TEST_F(Compare, MemoryIsComparedToTheByte) {
  json other = row("paged", 1);
  other["metrics"]["kv"]["used_bytes"] = 9007199254740994;  // equal as float64
  other["metrics"]["kv"]["reserved_bytes"] = 4095;
  other["metrics"]["kv"]["table_bytes"] = 64;
  const Finished run = compare(report({row("paged", 1)}), report({other}), {"--json", "-"});
  EXPECT_EQ(run.exit_code, 1);
  const json comparison = run.json();
  EXPECT_EQ(cell(comparison, "kv.used_bytes")["verdict"], "slower");
  EXPECT_EQ(cell(comparison, "kv.used_bytes")["new"].get<std::int64_t>(), 9007199254740994);
  EXPECT_EQ(cell(comparison, "kv.reserved_bytes")["verdict"], "faster");
  EXPECT_EQ(cell(comparison, "kv.table_bytes")["verdict"], "slower");
  EXPECT_TRUE(cell(comparison, "kv.table_bytes")["ratio"].is_null());  // 64 over 0
  EXPECT_TRUE(cell(comparison, "kv.workspace_bytes").is_null());
}

TEST_F(Compare, CasesOfOneReportOnlyAreListed) {
  const Finished run = compare(report({row("paged", 1), row("none", 1)}), report({row("qkv", 1), row("paged", 1)}));
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("only in the base: toy: none"));
  EXPECT_THAT(run.out, HasSubstr("only in the new report: toy: qkv"));
}

TEST_F(Compare, ACaseThatFailsNowIsARegression) {
  json crashed = row("paged", 1);
  crashed["status"] = "failed";
  crashed["reason"] = "other tokens";
  crashed["metrics"] = nullptr;
  const Finished run = compare(report({row("paged", 1)}), report({crashed}), {"--fail-above", "50"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("not compared"));
  EXPECT_THAT(run.err, HasSubstr("other tokens"));
}

TEST_F(Compare, NullsAndMissingRoundsLeaveTheRest) {
  json holes = row("paged", 1);
  holes["samples"]["step_s"] = json::array();
  holes["samples"]["ttft_s"][0] = nullptr;
  holes["samples"]["prefill_s"] = {0.02};
  const Finished run = compare(report({row("paged", 1)}), report({holes}), {"--json", "-"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const json comparison = run.json();
  EXPECT_TRUE(cell(comparison, "latency.step_s.p50").is_null());
  EXPECT_EQ(cell(comparison, "latency.ttft_s.p50")["verdict"], "same");
  EXPECT_EQ(cell(comparison, "prefill.tokens_per_s")["verdict"], "unclear");  // one round
  EXPECT_TRUE(cell(comparison, "prefill.tokens_per_s")["low"].is_null());
}

TEST_F(Compare, OtherTokensAreRemarkedOn) {
  json other = row("paged", 1);
  other["output"]["tokens_sha256"] = "bb";
  EXPECT_THAT(compare(report({row("paged", 1)}), report({other})).out,
              HasSubstr("other tokens than before: toy: paged"));
}

TEST_F(Compare, APeerStandsBesideTheNewReport) {
  json ours = row("paged", 1);
  ours["case"]["workload"]["batch"] = 1;
  const json peer = json::array({{{"build_commit", "abcdef0"},
                                  {"model_filename", "toy"},
                                  {"n_threads", 2},
                                  {"n_prompt", 32},
                                  {"n_gen", 0},
                                  {"samples_ns", {10000000, 10010000, 10020000}}}});
  const json both = report({ours});
  const Finished run = compare(both, both, {"--import-llama-bench", file("peer.json", peer), "--json", "-"});
  EXPECT_EQ(run.exit_code, 0) << run.err;  // a peer does not fail the gate
  ASSERT_EQ(run.json()["peers"].size(), 1U);
  EXPECT_EQ(run.json()["peers"][0]["verdict"], "slower");
  EXPECT_EQ(compare(both, both, {"--import-llama-bench", file("peer.json", json::object())}).exit_code, 2);
}

TEST_F(Compare, WrongInputIsRefusedAndNamed) {
  const json good = report({row("paged", 1)});
  const auto refused = [&](const json& base, const json& other, const std::string& word) {
    const Finished run = compare(base, other, {"--json", folder_.path("out.json")});
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, HasSubstr(word));
    EXPECT_FALSE(std::filesystem::exists(folder_.path("out.json")));
  };
  refused(json{{"a", 1}}, good, "base.json is not a kvlab report");
  refused(good, json::array(), "new.json is not a kvlab report");
  refused(good, report({row("none", 1)}), "no case in common");
  refused(good, report({row("none", 1)}), "variant/cache");
  refused(good, report({}), "no case in common");
  refused(report({row("paged", 1), row("paged", 1)}), good, "holds already");
  json negative = row("paged", 1);
  negative["samples"]["step_s"][0][1] = -1;
  refused(good, report({negative}), "results[0].samples.step_s");
  json bare = row("paged", 1);
  bare.erase("samples");
  refused(good, report({bare}), "samples is missing");
  EXPECT_EQ(kvlab({"compare", file("base.json", good), folder_.path("none.json")}).exit_code, 2);
  EXPECT_EQ(compare(good, good, {"--fail-above", "-1"}).exit_code, 2);
  EXPECT_EQ(compare(good, good, {"--fail-above", "nan"}).exit_code, 2);
}

}  // namespace
}  // namespace kvlab::testing
