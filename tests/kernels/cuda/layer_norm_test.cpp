// LayerNorm on the emulated device: against float64, in several orders of threads, with counted accesses.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cuda/launchers.h"
#include "kernels/cuda_emulation/device.h"
#include "kernels/reference/operations.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

using kvlab::test::expect_within;
using kvlab::test::random_values;

constexpr float kEps = 1e-5F;

struct Layer {
  std::vector<float> x;  // [n_rows, width]
  std::vector<float> weight;
  std::vector<float> bias;

  std::int64_t width() const { return static_cast<std::int64_t>(weight.size()); }
  std::int64_t n_rows() const { return static_cast<std::int64_t>(x.size()) / width(); }
};

Layer random_layer(std::int64_t n_rows, std::int64_t width) {
  return {random_values(n_rows * width, 1), random_values(width, 2), random_values(width, 3)};
}

struct Expected {
  std::vector<double> y;
  std::vector<double> bounds;
};

Expected expected_of(const Layer& layer) {
  const std::vector<double> x(layer.x.begin(), layer.x.end());
  const std::int64_t width = layer.width();
  Expected result{std::vector<double>(x.size()), {}};
  reference::layer_norm(x.data(), layer.n_rows(), width, layer.weight.data(), layer.bias.data(), double{kEps},
                        result.y.data());
  for (std::int64_t row = 0; row < layer.n_rows(); ++row) {
    const double* values = x.data() + row * width;
    double mean = 0.0;
    double magnitude = 0.0;
    for (std::int64_t i = 0; i < width; ++i) mean += values[i] / static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i) magnitude += std::fabs(values[i]) / static_cast<double>(width);
    double variance = 0.0;
    for (std::int64_t i = 0; i < width; ++i) {
      variance += (values[i] - mean) * (values[i] - mean) / static_cast<double>(width);
    }
    for (std::int64_t i = 0; i < width; ++i) {
      const auto at = static_cast<std::size_t>(i);
      result.bounds.push_back(kvlab::test::layer_norm_bound(
          width, magnitude, values[i] - mean, std::sqrt(variance + double{kEps}), layer.weight[at], layer.bias[at]));
    }
  }
  return result;
}

TEST(CudaLayerNorm, MeetsTheReferenceAndReadsWhatItMust) {
  for (const std::int64_t width : {1, 2, 97, 255, 256, 257, 1020, 1024, 1028, 16384}) {
    const Layer layer = random_layer(3, width);
    const Expected expected = expected_of(layer);
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(testing::Message() << "width " << width << ", seed " << seed);
      emulation::Device device({.seed = seed});
      const test::DeviceArray<float> x("x", layer.x);
      const test::DeviceArray<float> weight("weight", layer.weight);
      const test::DeviceArray<float> bias("bias", layer.bias);
      const test::DeviceArray<float> y("y", layer.x.size());
      launch_layer_norm(x.data(), width, 3, width, weight.data(), bias.data(), kEps, y.data(), width, nullptr);
      expect_within(y.values(), expected.y, expected.bounds);
      const auto reads = device.log().reads_of("x");
      EXPECT_EQ(reads.lane_bytes, 3 * 3 * width * 4);
      EXPECT_EQ(reads.touched_bytes, 3 * width * 4);
      EXPECT_EQ(device.log().reads_of("weight").lane_bytes, 3 * width * 4);
      EXPECT_EQ(device.log().reads_of("bias").lane_bytes, 3 * width * 4);
      const auto writes = device.log().writes_of("y");
      EXPECT_EQ(writes.lane_bytes, 3 * width * 4);
      if (width % 8 == 0) {
        EXPECT_EQ(reads.sectors, reads.least_sectors);
        EXPECT_EQ(writes.sectors, writes.least_sectors);
      }
      EXPECT_EQ(device.log().of_shared().wavefronts, device.log().of_shared().least_wavefronts);
    }
  }
}

// The mean of squares less the square of the mean would be off by 10^6 * 2^-24 here, a fifth of the variance.
TEST(CudaLayerNorm, CentresBeforeItSquares) {
  Layer layer = random_layer(2, 256);
  for (float& value : layer.x) value += 1000.0F;
  const Expected expected = expected_of(layer);
  const emulation::Device device;
  const test::DeviceArray<float> x("x", layer.x);
  const test::DeviceArray<float> weight("weight", layer.weight);
  const test::DeviceArray<float> bias("bias", layer.bias);
  const test::DeviceArray<float> y("y", layer.x.size());
  launch_layer_norm(x.data(), 256, 2, 256, weight.data(), bias.data(), kEps, y.data(), 256, nullptr);
  expect_within(y.values(), expected.y, expected.bounds);
}

TEST(CudaLayerNorm, WorksInPlaceStridedAndRoundsToBf16) {
  constexpr std::int64_t kWidth = 36;
  constexpr std::int64_t kStride = 40;
  const Layer layer = random_layer(2, kWidth);
  const Expected expected = expected_of(layer);
  const emulation::Device device({.seed = 1});
  const test::DeviceArray<float> weight("weight", layer.weight);
  const test::DeviceArray<float> bias("bias", layer.bias);
  const test::DeviceArray<float> strided("x", kvlab::test::with_stride(layer.x, kWidth, kStride));
  const test::DeviceArray<Bf16> rounded("y", layer.x.size());
  launch_layer_norm(strided.data(), kStride, 2, kWidth, weight.data(), bias.data(), kEps, rounded.data(), kWidth,
                    nullptr);
  const test::DeviceArray<float> in_place("x", layer.x);
  launch_layer_norm(in_place.data(), kWidth, 2, kWidth, weight.data(), bias.data(), kEps, in_place.data(), kWidth,
                    nullptr);
  const auto as_float = in_place.values();
  const auto as_bf16 = rounded.values();
  expect_within(as_float, expected.y, expected.bounds);
  for (std::size_t i = 0; i < as_float.size(); ++i) {
    EXPECT_EQ(as_bf16[i].bits, bf16_from_float(as_float[i]).bits);
  }
}

}  // namespace
}  // namespace kvlab::cuda
