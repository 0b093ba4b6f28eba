// RMSNorm, embedding and argmax on the emulated device: against float64 or plain loops, in several orders of threads,
// with counted accesses.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cuda/launchers.h"
#include "kernels/cuda_emulation/device.h"
#include "kernels/reference/operations.h"
#include "kernels/sampling.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

using kvlab::test::expect_within;
using kvlab::test::random_values;
using kvlab::test::rms_norm_bound;

constexpr float kEps = 1e-5F;
const std::vector<std::int64_t> kWidths = {1, 2, 15, 97, 256, 576, 1028, 4096};

std::vector<double> reference_norm(const std::vector<float>& x, std::int64_t n_rows, const std::vector<float>& weight) {
  const std::vector<double> wide(x.begin(), x.end());
  std::vector<double> y(x.size());
  reference::rms_norm(wide.data(), n_rows, static_cast<std::int64_t>(weight.size()), weight.data(), double{kEps},
                      y.data());
  return y;
}

TEST(CudaRmsNorm, MeetsTheReferenceAndReadsWhatItMust) {
  for (const std::int64_t width : kWidths) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(testing::Message() << "width " << width << ", seed " << seed);
      emulation::Device device({.seed = seed});
      const auto x = random_values(3 * width, 1);
      const auto weight = random_values(width, 2);
      const test::DeviceArray<float> in("x", x);
      const test::DeviceArray<float> weights("weight", weight);
      const test::DeviceArray<float> out("y", x.size());
      launch_rms_norm(in.data(), width, 3, width, weights.data(), kEps, out.data(), width, nullptr);
      const auto expected = reference_norm(x, 3, weight);
      std::vector<double> bounds;
      for (const double value : expected) bounds.push_back(rms_norm_bound(width, value));
      expect_within(out.values(), expected, bounds);
      const auto reads = device.log().reads_of("x");
      EXPECT_EQ(reads.lane_bytes, 2 * 3 * width * 4);
      EXPECT_EQ(reads.touched_bytes, 3 * width * 4);
      if (width % 8 == 0) {
        EXPECT_EQ(reads.sectors, reads.least_sectors);
      }
      EXPECT_EQ(device.log().reads_of("weight").lane_bytes, 3 * width * 4);
      EXPECT_EQ(device.log().writes_of("y").lane_bytes, 3 * width * 4);
      EXPECT_EQ(device.log().of_shared().wavefronts, device.log().of_shared().least_wavefronts);
    }
  }
}

TEST(CudaRmsNorm, WorksInPlaceStridedAndRoundsToBf16) {
  constexpr std::int64_t kWidth = 36;
  constexpr std::int64_t kStride = 40;
  const emulation::Device device({.seed = 1});
  const auto dense = random_values(2 * kWidth, 3);
  const auto weight = random_values(kWidth, 4);
  const auto expected = reference_norm(dense, 2, weight);
  const test::DeviceArray<float> weights("weight", weight);
  const test::DeviceArray<float> strided("x", kvlab::test::with_stride(dense, kWidth, kStride));
  const test::DeviceArray<Bf16> rounded("y", dense.size());
  launch_rms_norm(strided.data(), kStride, 2, kWidth, weights.data(), kEps, rounded.data(), kWidth, nullptr);
  const test::DeviceArray<float> in_place("x", dense);
  launch_rms_norm(in_place.data(), kWidth, 2, kWidth, weights.data(), kEps, in_place.data(), kWidth, nullptr);
  const auto as_float = in_place.values();
  const auto as_bf16 = rounded.values();
  for (std::size_t i = 0; i < dense.size(); ++i) {
    EXPECT_LE(std::fabs(static_cast<double>(as_float[i]) - expected[i]), rms_norm_bound(kWidth, expected[i]));
    EXPECT_EQ(as_bf16[i].bits, bf16_from_float(as_float[i]).bits);
  }
}

TEST(CudaEmbed, CopiesTheNamedRows) {
  const std::vector<std::int32_t> ids = {6, 0, 6, 3};
  for (const std::int64_t width : {1, 4, 33, 520}) {
    const emulation::Device device({.seed = 2});
    const auto table = random_values(7 * width, 5);
    std::vector<Bf16> narrow;
    for (const float value : table) narrow.push_back(bf16_from_float(value));
    const test::DeviceArray<float> f32("table", table);
    const test::DeviceArray<Bf16> bf16("narrow", narrow);
    const test::DeviceArray<std::int32_t> rows("ids", ids);
    const test::DeviceArray<float> out("out", ids.size() * static_cast<std::size_t>(width));
    const test::DeviceArray<float> out_of_bf16("out_of_bf16", ids.size() * static_cast<std::size_t>(width));
    launch_embed(f32.data(), width, rows.data(), 4, out.data(), false, nullptr);
    launch_embed(bf16.data(), width, rows.data(), 4, out_of_bf16.data(), false, nullptr);
    const auto copied = out.values();
    const auto widened = out_of_bf16.values();
    for (std::size_t i = 0; i < copied.size(); ++i) {
      const auto n = static_cast<std::size_t>(width);
      const float value = table[static_cast<std::size_t>(ids[i / n]) * n + i % n];
      EXPECT_EQ(copied[i], value);
      EXPECT_EQ(widened[i], bf16_to_float(bf16_from_float(value)));
    }
  }
}

TEST(CudaEmbed, AnIdThatIsNoneGivesNaN) {
  for (const std::int64_t width : {33, 520}) {
    const emulation::Device device({.seed = 2});
    const auto n = static_cast<std::size_t>(width);
    const test::DeviceArray<float> f32("table", random_values(width, 5));
    const test::DeviceArray<Bf16> bf16("narrow", std::vector<Bf16>(n, bf16_from_float(1.0F)));
    const test::DeviceArray<std::int32_t> rows("ids", std::vector<std::int32_t>{kNoChoice, 0});
    for (const bool accumulate : {false, true}) {
      const test::DeviceArray<float> out("out", std::vector<float>(2 * n, 1.0F));
      const test::DeviceArray<float> out_of_bf16("out_of_bf16", std::vector<float>(2 * n, 1.0F));
      launch_embed(f32.data(), width, rows.data(), 2, out.data(), accumulate, nullptr);
      launch_embed(bf16.data(), width, rows.data(), 2, out_of_bf16.data(), accumulate, nullptr);
      for (const test::DeviceArray<float>* each : {&out, &out_of_bf16}) {
        const std::vector<float> values = each->values();
        for (std::size_t i = 0; i < 2 * n; ++i) EXPECT_EQ(std::isnan(values[i]), i < n) << i;
      }
    }
  }
}

TEST(CudaArgmax, TakesTheFirstOfTheLargest) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr std::int32_t kChoices = 700;
  struct Case {
    std::vector<std::pair<std::size_t, float>> values;  // the rest is `floor`
    float floor;
    std::int32_t expected;
  };
  const std::vector<Case> cases = {
      {{{699, 2.0F}, {311, 2.0F}, {5, 1.0F}}, -1.0F, 311},  // a tie goes to the lower id, over warps and steps
      {{}, -3.5F, 0},                                       // all equal
      {{{256, -1.0F}}, -2.0F, 256},                         // negative values
      {{{7, -0.0F}, {300, 0.0F}}, -1.0F, 7},                // -0 equals 0
      {{{650, 3e38F}, {3, 2e38F}}, -kInf, 650},
      {{{699, kNan}}, 3e38F, kNoChoice},
      {{}, kNan, kNoChoice},
      {{{650, kInf}, {3, 3e38F}}, 0.0F, kNoChoice},
      {{}, -kInf, kNoChoice},
  };
  std::vector<float> logits;  // [n_rows, kChoices + 3]: what lies past the choices must not win
  for (const Case& row : cases) {
    std::vector<float> values(kChoices + 3, row.floor);
    for (const auto& [id, value] : row.values) values[id] = value;
    for (std::size_t i = kChoices; i < values.size(); ++i) values[i] = kInf;
    logits.insert(logits.end(), values.begin(), values.end());
  }
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    emulation::Device device({.seed = seed});
    const test::DeviceArray<float> in("logits", logits);
    const test::DeviceArray<std::int32_t> ids("ids", cases.size());
    launch_argmax(in.data(), kChoices + 3, static_cast<std::int64_t>(cases.size()), kChoices, ids.data(), nullptr);
    for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(ids.values()[i], cases[i].expected) << "row " << i;
    EXPECT_EQ(device.log().reads_of("logits").lane_bytes, static_cast<std::int64_t>(cases.size()) * kChoices * 4);
  }
}

}  // namespace
}  // namespace kvlab::cuda
