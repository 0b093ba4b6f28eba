// The sampler's edges, and its distribution against probabilities that can be told beforehand.
#include "model/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "kernels/error.h"

namespace kvlab {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::int32_t choose_once(const std::vector<float>& logits, const SamplingSettings& settings, std::uint64_t seed = 1) {
  return Sampler(seed).choose(logits, static_cast<std::int64_t>(logits.size()), settings);
}

/// How often each id came out of `n_draws` draws of one sampler.
std::map<std::int32_t, int> draw(const std::vector<float>& logits, const SamplingSettings& settings, int n_draws) {
  Sampler sampler(7);
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < n_draws; ++i) {
    ++counts[sampler.choose(logits, static_cast<std::int64_t>(logits.size()), settings)];
  }
  return counts;
}

std::vector<std::int32_t> ids_drawn(const std::vector<float>& logits, const SamplingSettings& settings) {
  std::vector<std::int32_t> ids;
  for (const auto& [id, count] : draw(logits, settings, 2000)) ids.push_back(id);
  return ids;
}

TEST(SpecS7, TemperatureZeroIsGreedyAndTiesGoToTheLowestId) {
  EXPECT_EQ(choose_once({0.5F, 2.0F, 2.0F, -1.0F}, {.temperature = 0.0}), 1);
  EXPECT_EQ(choose_once({-3.0F, -3.0F}, {.temperature = 0.0}), 0);
  EXPECT_EQ(choose_once({-kInfinity, -1e30F}, {.temperature = 0.0}), 1);
}

TEST(SpecS7, ATinyTemperatureFindsTheMaximumWithoutOverflow) {
  for (const double temperature : {1e-7, 1e-300, 5e-324}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      EXPECT_EQ(choose_once({-40.0F, 30.0F, 29.99F, 3e38F, -3e38F}, {.temperature = temperature}, seed), 3);
    }
  }
}

TEST(SpecS7, AHugeTemperatureIsUniform) {
  const auto counts = draw({10.0F, -10.0F, 0.0F, 5.0F}, {.temperature = 1e30}, 40000);
  ASSERT_EQ(counts.size(), 4U);
  // Binomial with p = 1/4: six standard deviations are 520.
  for (const auto& [id, count] : counts) EXPECT_NEAR(count, 10000, 520) << id;
}

TEST(SpecS7, FrequenciesFollowTheSoftmax) {
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F, -kInfinity};
  constexpr int kDraws = 60000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    const auto counts = draw(logits, {.temperature = temperature}, kDraws);
    EXPECT_EQ(counts.count(3), 0U);
    double total = 0.0;
    for (int id = 0; id < 3; ++id) total += std::exp(id / temperature);
    for (int id = 0; id < 3; ++id) {
      const double p = std::exp(id / temperature) / total;
      EXPECT_NEAR(counts.at(id), kDraws * p, 6 * std::sqrt(kDraws * p * (1 - p))) << id << " at " << temperature;
    }
  }
}

TEST(SpecS7, TopKKeepsTheHighestAndOfEqualOnesTheLowestIds) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F, 3.0F, 2.0F};
  EXPECT_THAT(ids_drawn(logits, {.temperature = 2.0, .top_k = 1}), testing::ElementsAre(1));
  EXPECT_THAT(ids_drawn(logits, {.temperature = 2.0, .top_k = 2}), testing::ElementsAre(1, 3));
  EXPECT_THAT(ids_drawn(logits, {.temperature = 2.0, .top_k = 3}), testing::ElementsAre(1, 2, 3));
}

TEST(SpecS7, TopKZeroOrAboveTheVocabularyIsOff) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F};
  for (const std::int64_t top_k : {std::int64_t{0}, std::int64_t{3}, std::int64_t{4}, INT64_MAX}) {
    EXPECT_THAT(ids_drawn(logits, {.temperature = 1.0, .top_k = top_k}), testing::ElementsAre(0, 1, 2)) << top_k;
  }
}

TEST(SpecS7, TopPOneIsOffAndZeroKeepsOneId) {
  const std::vector<float> logits = {1.0F, 3.0F, 3.0F, 2.0F};
  EXPECT_THAT(ids_drawn(logits, {.temperature = 1.0, .top_p = 1.0}), testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(ids_drawn(logits, {.temperature = 1.0, .top_p = 0.0}), testing::ElementsAre(1));
}

TEST(SpecS7, ACumulativeSumThatHitsTopPExactlyIsEnough) {
  const std::vector<float> ten_equal(10, 1.5F);
  for (int n = 1; n <= 10; ++n) {
    EXPECT_EQ(ids_drawn(ten_equal, {.temperature = 1.0, .top_p = n / 10.0}).size(), static_cast<std::size_t>(n)) << n;
  }
  EXPECT_EQ(ids_drawn(ten_equal, {.temperature = 1.0, .top_p = 0.3001}).size(), 4U);
}

TEST(SpecS7, TopPCountsWhatTopKLeft) {
  // Of four equal ids top-k leaves two; half of their weight is one id.
  EXPECT_THAT(ids_drawn({0.0F, 0.0F, 0.0F, 0.0F}, {.temperature = 1.0, .top_k = 2, .top_p = 0.5}),
              testing::ElementsAre(0));
}

TEST(SpecS7, ASeedRepeatsItsIds) {
  const std::vector<float> logits(1000, 0.0F);
  Sampler a(42);
  Sampler b(42);
  Sampler c(43);
  int differences = 0;
  for (int i = 0; i < 100; ++i) {
    const std::int32_t id = a.choose(logits, 1000, {.temperature = 1.0});
    EXPECT_EQ(id, b.choose(logits, 1000, {.temperature = 1.0}));
    differences += id != c.choose(logits, 1000, {.temperature = 1.0}) ? 1 : 0;
  }
  EXPECT_GT(differences, 90);
}

TEST(SpecS7, TheGeneratorIsTheSameEverywhere) {
  // SplitMix64's published first outputs for seed 1234567; of 2^20 equal ids the upper 20 bits are the choice.
  const std::vector<float> logits(1U << 20, 0.0F);
  Sampler sampler(1234567);
  for (const std::uint64_t output : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U}) {
    EXPECT_EQ(sampler.choose(logits, 1 << 20, {.temperature = 1.0}), static_cast<std::int32_t>(output >> 44));
  }
}

TEST(Sampler, WeightsAreExponentialsInWholeUnits) {
  const auto whole = static_cast<double>(kWholeWeight);
  for (const double temperature : {0.3, 1.0, 7.0}) {
    for (int i = 0; i <= 1000; ++i) {
      const float logit = -0.031F * static_cast<float>(i);
      const double exact = whole * std::exp(static_cast<double>(logit) / temperature);
      // Rounded down twice, and exp by its series: at most 2^-47 and eleven roundings of 2^-52 off.
      EXPECT_NEAR(static_cast<double>(sampling_weight(logit, 0.0F, temperature)), exact - 0.5, 1.5 + exact * 0x1p-46);
    }
  }
  EXPECT_EQ(sampling_weight(5.0F, 5.0F, 1e-300), kWholeWeight);
  EXPECT_EQ(sampling_weight(-3e38F, 3e38F, 1e-300), 0U);
  EXPECT_EQ(sampling_weight(-3e38F, 3e38F, 1e300), kWholeWeight);
}

TEST(Sampler, ADrawBelowATotalIsTheUpperHalfOfTheProduct) {
  EXPECT_EQ(drawn_below(1, UINT64_MAX), 0U);
  EXPECT_EQ(drawn_below(UINT64_MAX, UINT64_MAX), UINT64_MAX - 1);
  EXPECT_EQ(drawn_below(std::uint64_t{1} << 60, 0x123456789abcdef0U), 0x0123456789abcdefU);
  EXPECT_EQ(drawn_below(1000, std::uint64_t{1} << 63), 500U);
  EXPECT_EQ(drawn_below(0xfedcba9876543210U, 0x0123456789abcdefU), 0x0121fa00ad77d742U);
}

TEST(Sampler, PaddedIdsAreNeverChosen) {
  const std::vector<float> logits = {1.0F, 2.0F, 9.0F, kNaN};
  EXPECT_EQ(Sampler(1).choose(logits, 2, {.temperature = 0.0}), 1);
  for (std::uint64_t seed = 0; seed < 50; ++seed) EXPECT_LT(Sampler(seed).choose(logits, 2, {.temperature = 5.0}), 2);
}

TEST(Sampler, LogitsThatAreNoNumbersAreAnError) {
  for (const double temperature : {0.0, 1.0}) {
    const SamplingSettings settings{.temperature = temperature};
    EXPECT_THROW(choose_once({-kInfinity, -kInfinity}, settings), std::runtime_error);
    EXPECT_THROW(choose_once({1.0F, kNaN, 2.0F}, settings), std::runtime_error);
    EXPECT_THROW(choose_once({kNaN, kNaN}, settings), std::runtime_error);
    EXPECT_THROW(choose_once({1.0F, kInfinity}, settings), std::runtime_error);
    EXPECT_THROW(choose_once({}, settings), std::runtime_error);
    EXPECT_EQ(choose_once({-kInfinity, 0.0F, -kInfinity}, settings), 1);
  }
}

TEST(Sampler, WrongSettingsAreRefusedByName) {
  const auto message = [](const SamplingSettings& settings) -> std::string {
    try {
      check_sampling(settings);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(message({.temperature = 1e-7, .top_k = 5, .top_p = 0.0}), "accepted");
  for (const double temperature : {-1e-9, -1.0, kNoNumber, HUGE_VAL}) {
    EXPECT_THAT(message({.temperature = temperature}), testing::HasSubstr("temperature"));
  }
  EXPECT_THAT(message({.top_k = -1}), testing::HasSubstr("top-k"));
  for (const double top_p : {-0.1, 1.0001, kNoNumber}) {
    EXPECT_THAT(message({.top_p = top_p}), testing::HasSubstr("top-p"));
  }
  EXPECT_THROW(choose_once({1.0F}, {.temperature = -1.0}), InputError);
}

}  // namespace
}  // namespace kvlab
