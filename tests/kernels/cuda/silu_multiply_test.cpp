// Runs the body of the CUDA kernel on the host, thread by thread, and compares it with the formula in float64.
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
  constexpr std::size_t kGuard = 64;
  constexpr float kUntouched = -123.5F;
  std::vector<float> out(n_out + kGuard, kUntouched);  // [n_rows, width] and a guard
  for (std::size_t i = 0; i < n_out; ++i) out[i] = std::numeric_limits<float>::quiet_NaN();
  launch_on_host<const float*, std::int64_t, std::int64_t, float*>(
      silu_multiply_elementwise_kernel, shape.launch, gate_up.data(), shape.n_rows, shape.width, out.data());
  expect_formula(gate_up, out, shape);
  for (std::size_t i = n_out; i < out.size(); ++i) EXPECT_EQ(out[i], kUntouched) << "past the end: " << i - n_out;
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, CudaSiluMultiply,
                         testing::Values(Case{1, 1, {1, 256}}, Case{1, 255, {1, 256}}, Case{3, 257, {1, 256}},
                                         Case{5, 7, {1, 32}}, Case{2, 1536, {3, 256}}, Case{7, 33, {2, 96}},
                                         Case{1, 513, {64, 256}}, Case{0, 16, {1, 256}}));

TEST(CudaSiluMultiplyEdges, HugeGatesStayFinite) {
  const std::vector<float> gate_up = {-1e4F, -100.0F, 100.0F, 1e4F, 2.0F, 2.0F, 2.0F, 2.0F};  // [1, 2 * 4]
  std::vector<float> out(4, std::numeric_limits<float>::quiet_NaN());
  launch_on_host<const float*, std::int64_t, std::int64_t, float*>(silu_multiply_elementwise_kernel, {1, 32},
                                                                   gate_up.data(), 1, 4, out.data());
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
