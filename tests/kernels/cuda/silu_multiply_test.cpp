// Runs the CUDA kernel on the emulated device and compares it with the formula in float64.
#include "kernels/cuda/silu_multiply.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda_emulation/device.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

struct Case {
  std::int64_t n_rows;
  std::int64_t width;
  LaunchShape launch;
};

// Relative error of the result: exp within 1 ulp, then a sum, a quotient and a product, each within half an ulp.
// The floor covers silu of gates below -88, where exp(-gate) overflows and a value under 1e-36 becomes 0.
double allowed_error(double expected, double up) {
  return 4 * static_cast<double>(std::numeric_limits<float>::epsilon()) * std::abs(expected) + 1e-36 * std::abs(up);
}

std::vector<float> random_values(std::int64_t n, double spread) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0.0, spread);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = static_cast<float>(normal(random));
  return values;
}

void expect_formula(const std::vector<float>& gate_up, const std::vector<float>& out, const Case& shape) {
  for (std::int64_t row = 0; row < shape.n_rows; ++row) {
    for (std::int64_t j = 0; j < shape.width; ++j) {
      const double gate = gate_up[static_cast<std::size_t>(row * 2 * shape.width + j)];
      const double up = gate_up[static_cast<std::size_t>(row * 2 * shape.width + shape.width + j)];
      const double expected = gate / (1.0 + std::exp(-gate)) * up;
      const double actual = out[static_cast<std::size_t>(row * shape.width + j)];
      ASSERT_TRUE(std::abs(actual - expected) <= allowed_error(expected, up))
          << "row " << row << ", column " << j << ", gate " << gate << ": " << actual << ", expected " << expected;
    }
  }
}

class CudaSiluMultiply : public testing::TestWithParam<Case> {};

TEST_P(CudaSiluMultiply, MeetsTheFormulaAndWritesNothingElse) {
  const Case& shape = GetParam();
  const std::vector<float> gate_up = random_values(shape.n_rows * 2 * shape.width, 20.0);  // [n_rows, 2 * width]
  const auto n_out = static_cast<std::size_t>(shape.n_rows * shape.width);
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    emulation::Device device({.seed = seed});
    const test::DeviceArray<float> in("gate_up", gate_up);
    const test::DeviceArray<float> out("out", n_out);  // exactly bounded
    launch("silu_multiply", silu_multiply_elementwise_kernel, shape.launch, nullptr, in.data(), shape.n_rows,
           shape.width, out.data());
    expect_formula(gate_up, out.values(), shape);
    EXPECT_EQ(device.log().reads_of("gate_up").lane_bytes, shape.n_rows * shape.width * 8);
    EXPECT_EQ(device.log().writes_of("out").touched_bytes, shape.n_rows * shape.width * 4);
  }
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, CudaSiluMultiply,
                         testing::Values(Case{1, 1, {1, 256}}, Case{1, 255, {1, 256}}, Case{3, 257, {1, 256}},
                                         Case{5, 7, {1, 32}}, Case{2, 1536, {3, 256}}, Case{7, 33, {2, 96}},
                                         Case{1, 513, {64, 256}}, Case{0, 16, {1, 256}}));

TEST(CudaSiluMultiplyEdges, HugeGatesStayFinite) {
  const std::vector<float> gate_up = {-1e4F, -100.0F, 100.0F, 1e4F, 2.0F, 2.0F, 2.0F, 2.0F};  // [1, 2 * 4]
  const emulation::Device device;
  const test::DeviceArray<float> in("gate_up", gate_up);
  const test::DeviceArray<float> result("out", 4);
  launch_silu_multiply_elementwise(in.data(), 1, 4, result.data(), nullptr);
  const std::vector<float> out = result.values();
  EXPECT_EQ(out[0], 0.0F);
  EXPECT_EQ(out[1], 0.0F);
  EXPECT_EQ(out[2], 200.0F);
  EXPECT_EQ(out[3], 2e4F);
}

TEST(CudaLaunchShape, CoversEveryItemOnceAndRespectsTheLimit) {
  EXPECT_EQ(shape_for(1, 256, 4096).n_blocks, 1);
  EXPECT_EQ(shape_for(256, 256, 4096).n_blocks, 1);
  EXPECT_EQ(shape_for(257, 256, 4096).n_blocks, 2);
  EXPECT_EQ(shape_for(std::int64_t{1} << 40, 256, 4096).n_blocks, 4096);
}

}  // namespace
}  // namespace kvlab::cuda
