// Ceilings: what is measured, over which sizes, and what survives a file. Rates are only asked to be rates.
#include "harness/ceilings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "harness/ceiling_tables.h"
#include "harness/ceilings_json.h"
#include "harness/machine.h"
#include "harness/round.h"
#include "harness/word_sum.h"

namespace kvlab {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;

TEST(WordSum, IsTheSumModulo2To64) {
  alignas(64) std::array<std::uint64_t, 192> words{};
  std::uint64_t expected = 0;
  for (std::size_t i = 0; i < words.size(); ++i) expected += words[i] = ~std::uint64_t{0} / (i + 1);
  EXPECT_EQ(sum_words(words.data(), 192), expected);
  EXPECT_EQ(sum_words(words.data(), 0), 0U);
}

TEST(Streams, TheSetIsRoundedToWholeBlocksOfEachThread) {
  EXPECT_EQ(MemoryStreams(1 << 20, 1).working_set_bytes(), 1 << 20);
  EXPECT_EQ(MemoryStreams((1 << 20) + 1000, 2).working_set_bytes(), 1 << 20);
  EXPECT_EQ(MemoryStreams(100, 2).working_set_bytes(), 2 * MemoryStreams::kLeastBytesAThread);
}

TEST(Streams, MeasureAllThreeWaysToUseMemory) {
  const StreamRates rates = MemoryStreams(64 * 1024, 1).measure(1e-3);
  EXPECT_GT(rates.read_bytes_per_s, 0);
  EXPECT_GT(rates.write_bytes_per_s, 0);
  EXPECT_GT(rates.copy_bytes_per_s, 0);
}

TEST(CeilingTables, WorkingSetsGoFromTheFirstCacheToBeyondTheLast) {
  const std::int64_t most = std::int64_t{1} << 30;
  for (const int threads : {1, 2, 64}) {
    const auto sets = working_sets(threads, most);
    EXPECT_EQ(sets.front(), 16 * 1024 * threads);  // every first-level cache in use has 32 KiB or more
    EXPECT_EQ(sets.back(), most);
    EXPECT_TRUE(std::is_sorted(sets.begin(), sets.end()));
    for (std::size_t i = 1; i < sets.size(); ++i) EXPECT_LE(sets[i], 4 * sets[i - 1]);
  }
  const std::int64_t available = read_machine().memory_available_bytes;
  if (available >= 32 * last_level_cache_bytes()) {
    EXPECT_GE(main_memory_bytes(), 8 * last_level_cache_bytes());
  }
}

TEST(CeilingTables, ThreadCountsEndAtAll) {
  EXPECT_THAT(thread_counts(1), ElementsAre(1));
  EXPECT_THAT(thread_counts(2), ElementsAre(1, 2));
  EXPECT_THAT(thread_counts(6), ElementsAre(1, 2, 4, 6));
}

TEST(CeilingTables, HoldEveryRowAndPrintIt) {
  CeilingTableLimits limits;
  limits.budget_s = 1e-4;
  limits.most_bytes = 256 * 1024;
  limits.side = 128;
  limits.most_rows = 8;
  limits.overhead_steps = 1000;
  std::vector<std::string> heard;
  const CeilingTables tables =
      measure_ceiling_tables(1, limits, [&](const std::string& what) { heard.push_back(what); });
  EXPECT_FALSE(heard.empty());

  std::vector<std::int64_t> sizes;
  for (const BandwidthRow& row : tables.bandwidth) sizes.push_back(row.working_set_bytes);
  EXPECT_THAT(sizes, ElementsAre(16 << 10, 64 << 10, 256 << 10));
  std::vector<std::int64_t> rows;
  for (const ProductRow& row : tables.products) rows.push_back(row.n_rows);
  EXPECT_THAT(rows, ElementsAre(1, 2, 4, 8, 1, 2, 4, 8));
  EXPECT_EQ(tables.barriers.size(), 1U);
  EXPECT_EQ(tables.overhead.n_steps, 1000);

  const nlohmann::json json = ceiling_tables_json(tables);
  EXPECT_EQ(json["bandwidth"].size(), 3U);
  EXPECT_EQ(json["products"][4]["weight_dtype"], "bf16");
  for (const auto& row : json["bandwidth"]) {
    for (const char* way : {"read", "write", "copy"}) EXPECT_GT(row[std::string(way) + "_bytes_per_s"], 0.0);
  }
  // One row reads every weight once for 2 FLOPs: f32 weights of 4 bytes.
  EXPECT_NEAR(
      json["products"][0]["weight_bytes_per_s"].get<double>() / json["products"][0]["flops_per_s"].get<double>(), 2.0,
      1e-9);
  const std::string text = ceiling_tables_text(tables);
  for (const char* words : {"256 KiB", "bf16", "parallel region us", "Harness overhead"}) {
    EXPECT_THAT(text, ::testing::HasSubstr(words));
  }
}

/// The loop that times real rounds, run over a model that does nothing.
TEST(HarnessOverhead, HasATimeForEveryStep) {
  const std::vector<double> step_s = time_empty_steps(500);
  EXPECT_EQ(step_s.size(), 500U);
  EXPECT_THAT(step_s, Each(Gt(0)));
  EXPECT_TRUE(time_empty_steps(0).empty());
}

TEST(Ceilings, SurviveAFile) {
  const Ceilings ceilings{1, 2, 3, 4, 5, 6e-6, 7e-6, 8e-8};
  const Ceilings back = ceilings_from_json(nlohmann::json::parse(ceilings_json(ceilings).dump()));
  EXPECT_EQ(ceilings_json(back), ceilings_json(ceilings));
  EXPECT_EQ(back.harness_overhead_s, 8e-8);
}

TEST(Ceilings, OfAnOlderFileLackWhatItDidNotMeasure) {
  const nlohmann::json old = {
      {"read_bytes_per_s", 1}, {"copy_bytes_per_s", 2}, {"gemm_flops_per_s", {{"f32", 3}, {"bf16", 4}}}};
  const Ceilings ceilings = ceilings_from_json(old);
  EXPECT_EQ(ceilings.gemm_flops_per_s_bf16, 4);
  EXPECT_EQ(ceilings.write_bytes_per_s, 0);
  EXPECT_EQ(ceilings.barrier_s, 0);
  EXPECT_THROW(ceilings_from_json({{"read_bytes_per_s", 1}}), nlohmann::json::exception);
}

TEST(Ceilings, OfTwoLooksTheBetterNumbersStand) {
  const Ceilings better = higher_ceilings({1, 2, 3, 4, 5, 6, 7, 8}, {8, 7, 6, 5, 4, 3, 2, 0});
  const Ceilings expected{8, 7, 6, 5, 5, 3, 2, 8};  // rates: the higher; times: the shorter, 0 being none
  EXPECT_EQ(ceilings_json(better), ceilings_json(expected));
}

}  // namespace
}  // namespace kvlab
