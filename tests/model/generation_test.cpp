// Generation: limits, the context's edge, reasons, and settings that change between steps (SPEC S8, S9, S12).

#include "model/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/error.h"
#include "tests/model/golden_models.h"

namespace kvlab::testing {
namespace {

using ::testing::HasSubstr;

class GenerationTest : public ::testing::Test {
 protected:
  GenerationTest()
      : golden_(load_golden("llama-gqa")), transformer_(test_operations(), golden_.checkpoint.weights, {}) {}

  /// Everything until it ends.
  std::vector<std::int32_t> finish(Generation& generation) {
    while (generation.step()) {
    }
    return generation.tokens();
  }

  static GenerationSettings limit(std::int64_t n) {
    GenerationSettings settings;
    settings.max_new_tokens = n;
    return settings;
  }

  GoldenModel golden_;
  Transformer transformer_;
};

TEST_F(GenerationTest, StopsAtTheLimit) {
  Decoder decoder(transformer_, {}, 1, 100);
  Generation generation(decoder, nullptr, golden_.prompt, {}, 1, limit(24));
  EXPECT_EQ(finish(generation), golden_.greedy);
  EXPECT_EQ(generation.stop_reason(), StopReason::max_new_tokens);
}

TEST_F(GenerationTest, ZeroTokensRunThePromptAndChooseNothing) {
  Decoder decoder(transformer_, {}, 1, 100);
  Generation generation(decoder, nullptr, golden_.prompt, {}, 1, limit(0));
  EXPECT_TRUE(finish(generation).empty());
  EXPECT_EQ(generation.stop_reason(), StopReason::max_new_tokens);
  EXPECT_TRUE(worst_difference(generation.prompt_logits(), golden_.logits_last) <= 1e-3);
}

TEST_F(GenerationTest, AnEosEndsItAndIsNotAToken) {
  Decoder decoder(transformer_, {}, 1, 100);
  Generation generation(decoder, nullptr, golden_.prompt, {golden_.greedy[6]}, 1, limit(24));
  EXPECT_EQ(finish(generation), std::vector(golden_.greedy.begin(), golden_.greedy.begin() + 6));
  EXPECT_EQ(generation.stop_reason(), StopReason::eos);

  Decoder again(transformer_, {}, 1, 100);
  GenerationSettings settings = limit(24);
  settings.ignore_eos = true;
  Generation ignoring(again, nullptr, golden_.prompt, {golden_.greedy[6]}, 1, settings);
  EXPECT_EQ(finish(ignoring), golden_.greedy);
}

TEST_F(GenerationTest, PromptsAtTheEdgeOfTheContext) {
  const auto n = static_cast<std::int64_t>(golden_.prompt.size());
  for (const std::int64_t capacity : {n + 1, n}) {
    Decoder decoder(transformer_, {}, 1, capacity);
    Generation generation(decoder, nullptr, golden_.prompt, {}, 1, limit(24));
    EXPECT_EQ(static_cast<std::int64_t>(finish(generation).size()), capacity - n + 1);
    EXPECT_EQ(generation.stop_reason(), StopReason::context_full);
  }
  Decoder decoder(transformer_, {}, 1, n - 1);
  try {
    Generation generation(decoder, nullptr, golden_.prompt, {}, 1, limit(24));
    FAIL() << "a prompt longer than the context was taken";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("37"));
    EXPECT_THAT(error.what(), HasSubstr("36"));
  }
}

TEST_F(GenerationTest, RefusesWhatCannotBe) {
  Decoder decoder(transformer_, {}, 1, 100);
  EXPECT_THROW(Generation(decoder, nullptr, {}, {}, 1, limit(1)), InputError);
  EXPECT_THROW(Generation(decoder, nullptr, golden_.prompt, {}, 1, limit(-1)), InputError);
  GenerationSettings stops = limit(1);
  stops.stops = {"x"};
  EXPECT_THROW(Generation(decoder, nullptr, golden_.prompt, {}, 1, stops), InputError);
  EXPECT_THROW(Decoder(transformer_, {}, 1, 513), InputError);
}

TEST_F(GenerationTest, SpecS9ChangedSettingsTouchNoEarlierTokenAndProjectNoRowAgain) {
  Decoder decoder(transformer_, {}, 1, 100);
  Generation generation(decoder, nullptr, golden_.prompt, {}, 7, limit(24));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(generation.step());
  GenerationSettings settings = generation.settings();
  settings.sampling.temperature = 5.0;
  settings.max_new_tokens = 20;
  generation.change(settings);
  const std::vector<std::int32_t> tokens = finish(generation);
  ASSERT_EQ(tokens.size(), 20U);
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.begin() + 10, golden_.greedy.begin()));
  EXPECT_FALSE(std::equal(tokens.begin() + 10, tokens.end(), golden_.greedy.begin() + 10))
      << "temperature 5 changed nothing";
  EXPECT_EQ(decoder.total_work().kv_projection_rows, 37 + 19);
  settings.sampling.temperature = -1.0;
  EXPECT_THROW(generation.change(settings), InputError);
  EXPECT_EQ(generation.settings().sampling.temperature, 5.0);
}

TEST_F(GenerationTest, SpecS12RowsPerStep) {
  const std::vector<std::vector<std::int32_t>> prompt = {{1, 2, 3, 4}};
  for (const bool cached : {false, true}) {
    Variant variant;
    variant.cache = cached ? CacheKind::contiguous : CacheKind::none;
    Decoder decoder(transformer_, variant, 1, 100);
    decoder.prefill(prompt);
    EXPECT_EQ(decoder.last_work().kv_projection_rows, 4);
    for (std::int64_t step = 1; step <= 3; ++step) {
      const std::int32_t token = 5;
      decoder.decode(std::span(&token, 1));
      EXPECT_EQ(decoder.last_work().kv_projection_rows, cached ? 1 : 4 + step);
      EXPECT_EQ(decoder.last_work().attention_dots_newest_row[0], 4 + step);
    }
  }
}

}  // namespace
}  // namespace kvlab::testing
