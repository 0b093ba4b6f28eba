// Sampling on the emulated device against the sampler of the CPU: the same ids for the same seeds, over many settings
// and orders of threads; and how often the row is read.
#include "kernels/cuda/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/device.h"
#include "kernels/error.h"
#include "model/sampling/sampler.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Row {
  std::vector<float> logits;
  SamplingSettings settings;
};

/// What the CPU's sampler chooses, kNoChoice where it throws.
std::int32_t expected_id(Sampler& sampler, const Row& row) {
  try {
    return sampler.choose(row.logits, static_cast<std::int64_t>(row.logits.size()), row.settings);
  } catch (const std::runtime_error&) {
    return kNoChoice;
  }
}

/// Chooses from every row, on the device and on the CPU, with seeds seed, seed + 1, …; rows have one length, and what
/// lies between them must not win.
void expect_the_samplers_ids(const std::vector<Row>& rows, std::uint64_t seed) {
  const auto n_choices = static_cast<std::int32_t>(rows.front().logits.size());
  const std::int64_t stride = n_choices + 3;
  std::vector<float> logits;  // [n_rows, stride]
  std::vector<RowSampling> sampled;
  std::vector<Sampler> samplers;
  for (const Row& row : rows) {
    ASSERT_EQ(row.logits.size(), rows.front().logits.size());
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
    logits.insert(logits.end(), 3, kInfinity);
    sampled.push_back({row.settings, seed + sampled.size()});
    samplers.emplace_back(sampled.back().state);
  }
  const test::DeviceArray<float> in("logits", logits);
  const test::DeviceArray<std::uint64_t> scratch(
      "scratch", sample_scratch_bytes(std::ssize(rows), n_choices) / sizeof(std::uint64_t));
  const test::DeviceArray<std::int32_t> ids("ids", rows.size());
  launch_sample(in.data(), stride, n_choices, sampled, scratch.data(), ids.data(), nullptr);
  const std::vector<std::int32_t> chosen = ids.values();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    EXPECT_EQ(chosen[r], expected_id(samplers[r], rows[r]))
        << "row " << r << ": temperature " << rows[r].settings.temperature << ", top-k " << rows[r].settings.top_k
        << ", top-p " << rows[r].settings.top_p;
  }
}

/// Logits in -8 … 8; every `step`-th is the same as the one before it, so that cuts fall into ties.
std::vector<float> logits_of(std::int64_t n, std::uint32_t seed, std::size_t step = 3) {
  std::vector<float> values = kvlab::test::random_values(n, seed);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % step == step - 1 ? values[i - 1] : 8.0F * values[i];
  return values;
}

const std::vector<SamplingSettings> kSettings = {{1.0, 0, 1.0}, {0.7, 40, 1.0},       {1.5, 0, 0.9},  {1.0, 50, 0.5},
                                                 {0.0, 5, 0.5}, {0.05, 0, 0.999},     {1e30, 7, 1.0}, {1e-300, 0, 0.3},
                                                 {2.0, 1, 0.5}, {3.0, 1000000, 0.01}, {1.0, 3, 0.0}};

TEST(CudaSample, ChoosesWhatTheSamplerChooses) {
  const emulation::Device device({.seed = 3, .counts = false});
  for (const std::int64_t n : {1, 513, 1031}) {
    SCOPED_TRACE(testing::Message() << n << " ids");
    std::vector<Row> rows;
    for (const SamplingSettings& settings : kSettings) {
      rows.push_back({logits_of(n, static_cast<std::uint32_t>(rows.size())), settings});
    }
    expect_the_samplers_ids(rows, static_cast<std::uint64_t>(n) << 32);
  }
}

TEST(CudaSample, TheOrderOfThreadsChangesNothing) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const emulation::Device device({.seed = seed, .counts = false});
    expect_the_samplers_ids({{logits_of(600, 1), {0.9, 100, 0.8}}, {logits_of(600, 2), {1.0, 0, 1.0}}}, 17);
  }
}

TEST(CudaSample, TiesAtACutGoToTheLowerIds) {
  // Five equal ids of which three are kept, by number and by weight: only ids 0, 200 and 400 can come out.
  std::vector<float> ties(700, -kInfinity);
  for (const std::size_t id : {0, 200, 400, 512, 699}) ties[id] = -0.0F;
  ties[200] = 0.0F;  // -0 equals 0
  const emulation::Device device({.seed = 1, .counts = false});
  std::vector<Row> rows;
  for (int i = 0; i < 4; ++i)
    rows.push_back({ties, i % 2 == 0 ? SamplingSettings{1.0, 3, 1.0} : SamplingSettings{2.0, 0, 0.6}});
  expect_the_samplers_ids(rows, 100);
}

TEST(CudaSample, RowsWithoutAChoiceSayAndSoDoThoseThatAreNoNumbers) {
  const std::size_t n = 530;
  std::vector<std::vector<float>> logits(5, std::vector<float>(n, 1.0F));
  logits[0].assign(n, -kInfinity);
  logits[1][529] = kNaN;
  logits[2][0] = kInfinity;
  logits[3].assign(n, kNaN);
  logits[4].assign(n, -kInfinity);
  logits[4][528] = -3e38F;  // one candidate
  std::vector<Row> rows;
  for (const double temperature : {0.0, 1.0}) {
    for (const std::vector<float>& row : logits) rows.push_back({row, {temperature, 2, 0.5}});
  }
  const emulation::Device device({.seed = 2, .counts = false});
  expect_the_samplers_ids(rows, 5);
}

TEST(CudaSample, FarApartLogitsNeitherOverflowNorVanish) {
  const std::vector<float> logits = {-40.0F, 30.0F, 29.99F, 3e38F, -3e38F, 3e38F, 1e-45F, -1e-45F};
  const emulation::Device device({.counts = false});
  std::vector<Row> rows;
  for (const double temperature : {1e-300, 1e-7, 1.0, 1e37, 1e38, 1e300})
    rows.push_back({logits, {temperature, 0, 0.95}});
  expect_the_samplers_ids(rows, 9);
}

TEST(CudaSample, MoreRowsThanOneLaunchTakes) {
  const emulation::Device device({.counts = false});
  std::vector<Row> rows(65, {logits_of(5, 4), {0.0, 0, 1.0}});
  rows[63].settings.temperature = 1.0;
  rows[64].settings.temperature = 1.0;
  expect_the_samplers_ids(rows, 1);
  EXPECT_EQ(emulation::Device::current().n_launches(), 2);
}

TEST(CudaSample, TheLargestVocabulary) {
  const emulation::Device device({.counts = false});
  expect_the_samplers_ids({{logits_of(262144, 6), {1.0, 0, 0.9}}}, 3);
}

TEST(CudaSample, ReadsTheRowAsOftenAsItSays) {
  constexpr std::int64_t kN = 1000;
  struct Case {
    SamplingSettings settings;
    std::int64_t logit_reads;
    std::int64_t weight_reads;
  };
  for (const Case& one : {Case{{0.0, 3, 0.5}, 1, 0}, Case{{1.0, 0, 1.0}, 7, 5}, Case{{1.0, 3, 1.0}, 20, 5},
                          Case{{1.0, 0, 0.5}, 20, 18}, Case{{1.0, 3, 0.5}, 33, 18}}) {
    emulation::Device device({.seed = 1});
    expect_the_samplers_ids({{logits_of(kN, 1), one.settings}}, 1);
    const auto logits = device.log().reads_of("logits");
    EXPECT_EQ(logits.lane_bytes, one.logit_reads * kN * 4);
    EXPECT_EQ(logits.touched_bytes, kN * 4);
    EXPECT_EQ(logits.sectors, logits.least_sectors);
    EXPECT_EQ(device.log().reads_of("scratch").lane_bytes, one.weight_reads * kN * 8);
    EXPECT_EQ(device.log().writes_of("scratch").lane_bytes, one.weight_reads > 0 ? kN * 8 : 0);
    EXPECT_EQ(device.log().of_shared().wavefronts, device.log().of_shared().least_wavefronts);
  }
}

TEST(CudaSample, WrongSettingsAreRefused) {
  const emulation::Device device;
  const auto launch_with = [](const SamplingSettings& settings, std::int32_t n_choices = 5) {
    const RowSampling row{settings, 1};
    launch_sample(nullptr, 5, n_choices, {&row, 1}, nullptr, nullptr, nullptr);
  };
  EXPECT_THROW(launch_with({-1.0, 0, 1.0}), InputError);
  EXPECT_THROW(launch_with({std::nan(""), 0, 1.0}), InputError);
  EXPECT_THROW(launch_with({HUGE_VAL, 0, 1.0}), InputError);
  EXPECT_THROW(launch_with({1.0, -1, 1.0}), InputError);
  EXPECT_THROW(launch_with({1.0, 0, 1.1}), InputError);
  EXPECT_THROW(launch_with({1.0, 0, std::nan("")}), InputError);
  EXPECT_THROW(launch_with({1.0, 0, 1.0}, 0), InputError);
  EXPECT_THROW(launch_with({1.0, 0, 1.0}, kMostChoices + 1), InputError);
}

}  // namespace
}  // namespace kvlab::cuda
