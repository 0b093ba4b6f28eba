// Families of cases in a report, their fits, and what the report and its table say of them (SPEC S14).
#include "harness/scaling_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/made_up_results.h"

namespace kvlab {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<nlohmann::ordered_json> rows_of(const std::vector<CaseResult>& results) {
  std::vector<nlohmann::ordered_json> rows;
  for (const CaseResult& result : results) rows.push_back(made_up::row(result));
  return rows;
}

TEST(SpecS14, TheReportGivesTheQuadraticPartBesideAttentionsShare) {
  const std::vector<CaseResult> results = made_up::prompt_lengths(7);
  const nlohmann::ordered_json fits = fits_json(rows_of(results));
  ASSERT_EQ(fits.size(), 1U);
  const nlohmann::ordered_json& fit = fits[0];
  EXPECT_EQ(fit["prompt_tokens"], (std::vector<int>{16, 32, 64, 128, 256, 512, 1024}));
  EXPECT_NEAR(fit["a_s"]["value"].get<double>(), 1e-3, 1e-9);
  EXPECT_NEAR(fit["b_s_per_token"]["value"].get<double>(), 1e-5, 1e-11);
  EXPECT_NEAR(fit["c_s_per_token2"]["value"].get<double>(), 1e-8, 1e-14);
  EXPECT_LE(fit["c_s_per_token2"]["low"].get<double>(), 1e-8 + 1e-14);
  EXPECT_GE(fit["c_s_per_token2"]["high"].get<double>(), 1e-8 - 1e-14);
  const double quadratic = 1e-8 * 1024 * 1024;
  EXPECT_NEAR(fit["quadratic_share"][6].get<double>(), quadratic / (1e-3 + 1e-5 * 1024 + quadratic), 1e-6);
  const WorkCounters& work = results[6].prefill_work;
  const auto attention = static_cast<double>(work.attention_flops);
  EXPECT_NEAR(fit["attention_share"][6].get<double>(), attention / (attention + static_cast<double>(work.gemm_flops)),
              1e-12);
  EXPECT_FALSE(fit["case"]["workload"].contains("prompt_tokens"));
}

TEST(ScalingFits, OnlyCasesThatDifferInNothingElseAreOneFamily) {
  std::vector<CaseResult> results = made_up::prompt_lengths(4);
  EXPECT_EQ(scaling_fits(rows_of(results)).size(), 1U);
  results[3].spec.variant.kv_capacity = 4096;
  EXPECT_TRUE(scaling_fits(rows_of(results)).empty()) << "three lengths are left";
  results[3] = made_up::prompt_lengths(4)[3];
  results[3].status = Status::failed;
  EXPECT_TRUE(scaling_fits(rows_of(results)).empty());

  results = made_up::prompt_lengths(4);
  for (CaseResult result : made_up::prompt_lengths(5)) {
    result.spec.threads = 2;
    results.insert(results.begin(), result);  // lengths in descending order
  }
  const std::vector<ScalingFit> two = scaling_fits(rows_of(results));
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].lengths, (std::vector<std::int64_t>{16, 32, 64, 128, 256}));
  EXPECT_EQ(two[1].lengths.size(), 4U);
}

TEST(ScalingFits, TheTablePrintsThem) {
  const auto with = report_json(rows_of(made_up::prompt_lengths(5)), std::nullopt, nullptr, "run", nullptr);
  const std::string table = report_table(with);
  EXPECT_THAT(table, HasSubstr("c = 10 ns/token^2"));
  EXPECT_THAT(table, HasSubstr("attention, % of the FLOPs"));
  const auto without = report_json({made_up::row(made_up::ok_result())}, std::nullopt, nullptr, "run", nullptr);
  EXPECT_TRUE(without["fits"].empty());
  EXPECT_THAT(report_table(without), Not(HasSubstr("prefill of n tokens")));
}

}  // namespace
}  // namespace kvlab
