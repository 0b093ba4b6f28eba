// The backend's small kernels on the emulated device: copied and rounded rows, GELU, RoPE in place, added embeddings,
// norms between strides.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cuda/launchers.h"
#include "kernels/cuda_emulation/device.h"
#include "kernels/error.h"
#include "kernels/reference/operations.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

using kvlab::test::expect_within;
using kvlab::test::kUntouched;
using kvlab::test::random_values;
using kvlab::test::widened;
using kvlab::test::with_stride;
using kvlab::test::without_stride;

TEST(CudaCopyRows, PicksRowsOrRoundsThemAll) {
  const std::vector<std::int64_t> picked = {4, 0, 4};
  for (const std::int64_t width : {1, 4, 31, 520}) {
    for (const std::int64_t gap : {0, 4}) {
      SCOPED_TRACE(testing::Message() << "width " << width << ", gap " << gap);
      emulation::Device device({.seed = 3});
      const std::int64_t stride = width + gap;
      const auto dense = random_values(5 * width, 1);
      const test::DeviceArray<float> x("x", with_stride(dense, width, stride));
      const test::DeviceArray<std::int64_t> rows("rows", picked);
      const test::DeviceArray<float> out("out", std::vector<float>(static_cast<std::size_t>(3 * stride), kUntouched));
      launch_copy_rows(x.data(), stride, rows.data(), 3, width, out.data(), stride, nullptr);
      const auto copied = without_stride(out.values(), width, stride);
      for (std::size_t i = 0; i < copied.size(); ++i) {
        const auto n = static_cast<std::size_t>(width);
        EXPECT_EQ(copied[i], dense[static_cast<std::size_t>(picked[i / n]) * n + i % n]);
      }
      EXPECT_EQ(device.log().writes_of("out").lane_bytes, 3 * width * 4);
      const test::DeviceArray<Bf16> rounded("rounded", dense.size());
      launch_copy_rows(x.data(), stride, nullptr, 5, width, rounded.data(), width, nullptr);
      const auto values = rounded.values();
      for (std::size_t i = 0; i < dense.size(); ++i) EXPECT_EQ(values[i].bits, bf16_from_float(dense[i]).bits);
    }
  }
}

TEST(CudaGelu, MeetsTheFormula) {
  for (const std::int64_t n : {1, 255, 257, 1031}) {
    const emulation::Device device({.seed = 1});
    auto values = random_values(n, 2);
    for (float& value : values) value *= 6.0F;
    values[0] = -90.0F;
    const test::DeviceArray<float> x("x", values);
    launch_gelu(x.data(), n, nullptr);
    std::vector<double> expected = widened(values);
    reference::gelu(expected.data(), n);
    std::vector<double> bounds;
    for (std::size_t i = 0; i < values.size(); ++i) {
      // 1 + tanh cancels for negative values: its rounding is that of a number near 1.
      bounds.push_back(kvlab::test::rounding_bound(8, std::abs(static_cast<double>(values[i]))));
    }
    expect_within(x.values(), expected, bounds);
  }
}

TEST(CudaRope, RotatesEveryHeadInPlaceAndNothingBetweenTheRows) {
  const std::vector<std::int32_t> positions = {0, 7, 3};
  for (const std::int64_t head_dim : {2, 6, 8, 64}) {
    constexpr std::int64_t kHeads = 5;
    const emulation::Device device({.seed = 2});
    std::vector<double> frequencies;
    std::vector<float> table;
    for (std::int64_t i = 0; i < head_dim / 2; ++i) frequencies.push_back(1.0 / static_cast<double>(i + 1));
    for (int pos = 0; pos < 8; ++pos) {
      for (const double f : frequencies) table.push_back(static_cast<float>(std::cos(pos * f)));
      for (const double f : frequencies) table.push_back(static_cast<float>(std::sin(pos * f)));
    }
    const std::int64_t width = kHeads * head_dim;
    const auto dense = random_values(3 * width, 4);
    const test::DeviceArray<float> x("x", with_stride(dense, width, width + 8));
    const test::DeviceArray<std::int32_t> device_positions("positions", positions);
    const test::DeviceArray<float> cos_sin("cos_sin", table);
    launch_rope(x.data(), width + 8, 3, kHeads, head_dim, device_positions.data(), cos_sin.data(), nullptr);
    std::vector<double> expected = widened(dense);
    reference::rope(expected.data(), 3, kHeads, head_dim, positions.data(), frequencies.data());
    expect_within(without_stride(x.values(), width, width + 8), expected,
                  std::vector<double>(dense.size(), kvlab::test::rope_bound(2.0)));
  }
  EXPECT_THROW(launch_rope(nullptr, 3, 1, 1, 3, nullptr, nullptr, nullptr), InputError);
}

TEST(CudaEmbed, AddsToWhatIsThere) {
  const std::vector<std::int32_t> ids = {2, 0};
  for (const std::int64_t width : {5, 32}) {
    const emulation::Device device({.seed = 1});
    const auto table = random_values(3 * width, 5);
    const auto before = random_values(2 * width, 6);
    const test::DeviceArray<float> f32("table", table);
    const test::DeviceArray<std::int32_t> rows("ids", ids);
    const test::DeviceArray<float> out("out", before);
    launch_embed(f32.data(), width, rows.data(), 2, out.data(), true, nullptr);
    const auto sums = out.values();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto n = static_cast<std::size_t>(width);
      EXPECT_EQ(sums[i], before[i] + table[static_cast<std::size_t>(ids[i / n]) * n + i % n]);
    }
  }
}

TEST(CudaNorms, WorkInPlaceInsideWiderRows) {
  for (const std::int64_t width : {7, 32}) {
    const std::int64_t stride = width + 8;
    const emulation::Device device({.seed = 1});
    const auto dense = random_values(3 * width, 7);
    const auto weight = random_values(width, 8);
    const test::DeviceArray<float> weights("weight", weight);
    const test::DeviceArray<float> x("x", with_stride(dense, width, stride));
    launch_rms_norm(x.data(), stride, 3, width, weights.data(), 1e-6F, x.data(), stride, nullptr);
    std::vector<double> expected = widened(dense);
    reference::rms_norm(expected.data(), 3, width, weight.data(), 1e-6, expected.data());
    std::vector<double> bounds;
    for (const double value : expected) bounds.push_back(kvlab::test::rms_norm_bound(width, value));
    expect_within(without_stride(x.values(), width, stride), expected, bounds);
    const test::DeviceArray<float> y("y", with_stride(dense, width, stride));
    launch_layer_norm(y.data(), stride, 3, width, weights.data(), weights.data(), 1e-6F, y.data(), stride, nullptr);
    without_stride(y.values(), width, stride);
  }
}

}  // namespace
}  // namespace kvlab::cuda
