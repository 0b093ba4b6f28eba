// The measuring loop in process: counts that must come out exactly, output checks that can fail, rounds and budget.
#include "harness/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "harness/accounting.h"
#include "harness/local_runner.h"
#include "harness/work_difference.h"
#include "tests/command_line/binary.h"

namespace kvlab {
namespace {

MeasuredCase measured_case(const Workload& workload, const Variant& variant,
                           const std::string& model = testing::kLlama) {
  MeasuredCase measured;
  measured.result.spec.model = model;
  measured.result.spec.variant = variant;
  measured.result.spec.workload = workload;
  measured.config = open_checkpoint(model, Need::config).config;
  return measured;
}

RoundPolicy rounds(std::int64_t count) { return {count, count, 0, 1e9, 1e9}; }

/// "CASE:ROUND" of every outcome; END for what ended a case.
class Order : public MeasurementListener {
 public:
  explicit Order(const std::vector<MeasuredCase>& cases) : cases_(cases) {}
  void on_outcome(const Case& spec, std::optional<std::int64_t> number, const CaseOutcome&) override {
    const auto owner =
        std::find_if(cases_.begin(), cases_.end(), [&](const MeasuredCase& m) { return m.result.spec == spec; });
    outcomes_.push_back(std::to_string(owner - cases_.begin()) + ":" + (number ? std::to_string(*number) : "END"));
  }
  const std::vector<std::string>& outcomes() const { return outcomes_; }

 private:
  const std::vector<MeasuredCase>& cases_;
  std::vector<std::string> outcomes_;
};

std::vector<std::string> measure(std::vector<MeasuredCase>& cases, const RoundPolicy& policy) {
  Order order(cases);
  const auto make_runner = [](const Case& first) {
    return std::make_unique<LocalRunner>(RunnerSetup{first.model, first.device, first.threads, first.seed, ""});
  };
  Measurement(cases, policy, 0, make_runner, order).run();
  return order.outcomes();
}

Variant with(const std::function<void(Variant&)>& change) {
  Variant variant;
  change(variant);
  return variant;
}

TEST(Measurement, CasesTakeTurnsWithinARound) {
  std::vector<MeasuredCase> cases = {measured_case({1, 0, 6, 4}, with([](Variant& v) { v.cache = CacheKind::none; })),
                                     measured_case({1, 0, 6, 4}, with([](Variant& v) { v.cache = CacheKind::paged; })),
                                     measured_case({1, 0, 6, 4}, with([](Variant& v) { v.heads = HeadsKind::mha; }))};
  EXPECT_EQ(measure(cases, rounds(2)), (std::vector<std::string>{"0:0", "1:0", "2:0", "0:1", "1:1", "2:1"}));
  for (const MeasuredCase& measured : cases) {
    EXPECT_EQ(measured.result.status, Status::ok) << measured.result.reason;
    EXPECT_EQ(measured.result.samples.ttft_s.size(), 2U);
    EXPECT_EQ(measured.result.samples.step_s[1].size(), 3U);  // n tokens have n - 1 latencies between them
    EXPECT_EQ(measured.result.output.tokens_sha256, cases[0].result.output.tokens_sha256);
  }
}

/// Runs cases in process; the process that looks at the ceilings dies at the second look.
class DyingRunner : public LocalRunner {
 public:
  using LocalRunner::LocalRunner;
  Ceilings ceilings(double) override {
    if (++looks_ > 1) throw std::runtime_error("the worker ended with signal 9");
    Ceilings seen;
    seen.read_bytes_per_s = 5e9;
    return seen;
  }

 private:
  int looks_ = 0;
};

TEST(Measurement, RoundsOutliveAWorkerThatDiesAtTheLastLookAtTheCeilings) {
  std::vector<MeasuredCase> cases = {measured_case({1, 0, 6, 4}, {})};
  Order order(cases);
  const auto make_runner = [](const Case& first) {
    return std::make_unique<DyingRunner>(RunnerSetup{first.model, first.device, first.threads, first.seed, ""});
  };
  Measurement measurement(cases, rounds(2), 0.01, make_runner, order);
  ASSERT_NO_THROW(measurement.run());
  EXPECT_EQ(order.outcomes(), (std::vector<std::string>{"0:0", "0:1"}));
  ASSERT_TRUE(measurement.ceilings());
  EXPECT_EQ(measurement.ceilings()->read_bytes_per_s, 5e9);
}

TEST(Measurement, RoundsThatWereStoredAreNotRunAgain) {
  std::vector<MeasuredCase> cases = {measured_case({1, 0, 6, 4}, {}),
                                     measured_case({1, 0, 6, 4}, with([](Variant& v) { v.cache = CacheKind::none; }))};
  measure(cases, rounds(3));
  cases[1].rounds.erase(1);
  EXPECT_EQ(measure(cases, rounds(3)), (std::vector<std::string>{"1:1"}));
  EXPECT_TRUE(measure(cases, rounds(3)).empty());
}

TEST(Measurement, StopsAtTheBudgetButNotBeforeTheLeastRounds) {
  std::vector<MeasuredCase> cases = {measured_case({1, 0, 6, 4}, {})};
  EXPECT_EQ(measure(cases, {2, 1000, 0, 0}).size(), 2U);
}

TEST(SpecS12, StepsProjectTheRowsOfTheirLength) {
  std::vector<MeasuredCase> cases = {measured_case({1, 0, 4, 4}, with([](Variant& v) { v.cache = CacheKind::none; })),
                                     measured_case({1, 0, 4, 4}, {})};
  measure(cases, rounds(1));
  EXPECT_EQ(cases[0].result.samples.step_rows, (std::vector<std::int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(cases[1].result.samples.step_rows, (std::vector<std::int64_t>{4, 1, 1, 1}));
}

/// What one round of the toy counted while it ran, prefill and decode, after comparing it with the formulas.
WorkCounters work_of_toy(std::int64_t prompt_tokens, std::int64_t gen_tokens, CacheKind cache) {
  static ModelSession session("toy", "cpu", 1, 1);
  const Workload workload{1, 0, prompt_tokens, gen_tokens};
  const MeasuredCase measured = measured_case(workload, with([&](Variant& v) { v.cache = cache; }), "toy");
  const Case& spec = measured.result.spec;
  RoundOptions options;
  options.n_choices = choosable_ids(session.checkpoint());
  const Round round = run_round(session.transformer(spec.variant), spec,
                                workload_tokens(session.checkpoint(), workload, "", 1), options);
  EXPECT_EQ(work_difference(spec, measured.config, round.prefill_work, round.decode_work), "");
  WorkCounters work = round.prefill_work;
  work += round.decode_work;
  return work;
}

TEST(SpecS16, AThousandTokensFromOne) {
  const WorkCounters recomputed = work_of_toy(1, 1000, CacheKind::none);
  const WorkCounters cached = work_of_toy(1, 1000, CacheKind::contiguous);
  EXPECT_EQ(recomputed.kv_projection_rows, 500500);
  EXPECT_EQ(cached.kv_projection_rows, 1000);
  EXPECT_EQ(recomputed.attention_dots_newest_row[0], 500500);
  EXPECT_EQ(cached.attention_dots_newest_row[0], 500500);
  EXPECT_EQ(cached.attention_dots[0], 500500);
  EXPECT_EQ(recomputed.attention_dots[0], 167167000);
}

TEST(SpecS17, FiveHundredTokensFromAHundred) {
  const WorkCounters recomputed = work_of_toy(100, 500, CacheKind::none);
  const WorkCounters cached = work_of_toy(100, 500, CacheKind::contiguous);
  EXPECT_EQ(recomputed.kv_projection_rows, 174750);
  EXPECT_EQ(cached.kv_projection_rows, 599);
  EXPECT_EQ(recomputed.attention_dots[0], 35833250);
  EXPECT_EQ(cached.attention_dots[0], 179700);
}

TEST(Measurement, BatchAndDepthGiveTheReferencesTokens) {
  std::vector<MeasuredCase> cases = {
      measured_case({3, 5, 6, 4}, with([](Variant& v) { v.cache = CacheKind::paged, v.page_size = 4; })),
      measured_case({3, 5, 6, 4}, with([](Variant& v) { v.cache = CacheKind::none; }))};
  measure(cases, rounds(1));
  for (const MeasuredCase& measured : cases) EXPECT_EQ(measured.result.status, Status::ok) << measured.result.reason;
  EXPECT_EQ(cases[0].result.output.tokens_sha256, cases[1].result.output.tokens_sha256);
}

TEST(Measurement, OtherStorageIsHeldToTwiceTheNaiveError) {
  std::vector<MeasuredCase> cases = {
      measured_case({1, 0, 8, 6}, with([](Variant& v) { v.kv_dtype = DType::bf16; })),
      measured_case({1, 0, 8, 6}, with([](Variant& v) { v.weight_dtype = DType::bf16; })),
      measured_case({1, 0, 8, 6}, with([](Variant& v) { v.heads = HeadsKind::mqa; }))};
  measure(cases, rounds(1));
  for (const MeasuredCase& measured : cases) EXPECT_EQ(measured.result.status, Status::ok) << measured.result.reason;
}

TEST(Measurement, AFailingCaseDoesNotEndTheOthers) {
  // A capacity below the workload throws while the case is prepared.
  std::vector<MeasuredCase> cases = {measured_case({1, 0, 6, 4}, with([](Variant& v) { v.kv_capacity = 7; })),
                                     measured_case({1, 0, 6, 4}, {})};
  EXPECT_EQ(measure(cases, rounds(1)), (std::vector<std::string>{"0:END", "1:0"}));
  EXPECT_EQ(cases[0].result.status, Status::failed);
  EXPECT_FALSE(cases[0].result.reason.empty());
  EXPECT_TRUE(cases[0].rounds.empty());
  EXPECT_EQ(cases[1].result.status, Status::ok);
}

TEST(Measurement, WhatCannotFitIsRefusedBeforeItIsAllocated) {
  std::vector<MeasuredCase> cases = {
      measured_case({2000000000, 0, 6, 4}, with([](Variant& v) { v.kv_capacity = 500; }))};
  measure(cases, rounds(1));
  EXPECT_EQ(cases[0].result.status, Status::skipped);
  EXPECT_THAT(cases[0].result.reason, ::testing::HasSubstr("GB available"));
}

TEST(OutputCheck, OneOfThreeTokensChangedIsFound) {
  // The check must be able to fail: work counted for another workload does not equal the formulas.
  const MeasuredCase measured = measured_case({1, 0, 6, 4}, {});
  ModelSession session(testing::kLlama, "cpu", 1, 1);
  const Checkpoint& checkpoint = session.checkpoint();
  RoundOptions options;
  options.n_choices = choosable_ids(checkpoint);
  const WorkloadTokens tokens = workload_tokens(checkpoint, {1, 0, 6, 4}, "", 1);
  const Round round = run_round(session.transformer({}), measured.result.spec, tokens, options);
  EXPECT_EQ(work_difference(measured.result.spec, measured.config, round.prefill_work, round.decode_work), "");
  Case other = measured.result.spec;
  other.workload.gen_tokens = 5;
  EXPECT_NE(work_difference(other, measured.config, round.prefill_work, round.decode_work), "");
}

TEST(CheckCase, TheContextIsExact) {
  MeasuredCase measured = measured_case({1, 0, 500, 13}, {});  // positions 0 ... 511
  EXPECT_NO_THROW(check_case(measured.result.spec, measured.config));
  measured.result.spec.workload.gen_tokens = 14;
  EXPECT_THROW(check_case(measured.result.spec, measured.config), std::exception);
}

}  // namespace
}  // namespace kvlab
