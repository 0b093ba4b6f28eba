// The reference itself, against numbers worked out by hand, and SPEC S24 bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/reference/operations.h"
#include "tests/kernels/compare.h"

namespace kvlab {
namespace {

TEST(Reference, MatmulIsRowTimesTransposedWeight) {
  const std::vector<double> x = {1, 2, 3, 4, 5, 6};  // [2, 3]
  const std::vector<float> w = {1, 0, -1, 2, 2, 2};  // [2, 3]
  const std::vector<float> bias = {10, 100};
  std::vector<double> y(4);
  reference::matmul(x.data(), 2, w.data(), 2, 3, bias.data(), y.data());
  EXPECT_EQ(y, (std::vector<double>{8, 112, 8, 130}));
}

TEST(Reference, NormsOfAKnownRow) {
  const std::vector<double> x = {3, 4};
  const std::vector<float> weight = {1, 2};
  const std::vector<float> bias = {0.5F, 0.25F};
  std::vector<double> y(2);
  reference::rms_norm(x.data(), 1, 2, weight.data(), 0.0, y.data());
  EXPECT_DOUBLE_EQ(y[0], 3 / std::sqrt(12.5));
  EXPECT_DOUBLE_EQ(y[1], 8 / std::sqrt(12.5));
  reference::layer_norm(x.data(), 1, 2, weight.data(), bias.data(), 0.0, y.data());
  EXPECT_DOUBLE_EQ(y[0], -0.5);
  EXPECT_DOUBLE_EQ(y[1], 2.25);
}

TEST(Reference, RopeTurnsHalfSplitPairs) {
  std::vector<double> x = {1, 10, 0, 20};  // pairs (1, 0) and (10, 20)
  const std::vector<double> frequencies = {std::numbers::pi / 4, 0.0};
  const std::int32_t position = 2;
  reference::rope(x.data(), 1, 1, 4, &position, frequencies.data());
  EXPECT_NEAR(x[0], 0.0, 1e-15);
  EXPECT_NEAR(x[2], 1.0, 1e-15);
  EXPECT_EQ(x[1], 10.0);
  EXPECT_EQ(x[3], 20.0);
}

TEST(Reference, ActivationsAtOne) {
  double x = 1.0;
  reference::gelu(&x, 1);
  EXPECT_NEAR(x, 0.8411919906082768, 1e-15);  // 0.5 (1 + tanh(0.79788456 * 1.044715))
  const double gate = 1.0;
  const double up = 2.0;
  double out = 0.0;
  reference::silu_multiply(&gate, &up, 1, &out);
  EXPECT_NEAR(out, 2 * 0.7310585786300049, 1e-15);
}

TEST(Reference, AttentionWeighsByScore) {
  // Two keys, scores ln 3 and 0 for the last query: weights 3/4 and 1/4. The first query sees the first key alone.
  const reference::AttentionShape shape{2, 2, 1, 1, 1, 0, 0.5};
  const std::vector<double> q = {1, 2 * std::log(3.0)};
  const std::vector<double> k = {1, 0};
  const std::vector<double> v = {4, 8};
  std::vector<double> out(2);
  reference::attention(shape, q.data(), k.data(), v.data(), out.data());
  EXPECT_DOUBLE_EQ(out[0], 4.0);
  EXPECT_DOUBLE_EQ(out[1], 5.0);
}

TEST(Reference, WindowAndEmptyRows) {
  const std::vector<double> q(3, 0.0);
  const std::vector<double> k = {1, 2, 3};
  const std::vector<double> v = {1, 2, 4};
  std::vector<double> out(3, -1.0);
  reference::attention({3, 3, 1, 1, 1, 2, 1.0}, q.data(), k.data(), v.data(), out.data());
  EXPECT_EQ(out, (std::vector<double>{1, 1.5, 3}));
  reference::attention({3, 1, 1, 1, 1, 0, 1.0}, q.data(), k.data(), v.data(), out.data());
  EXPECT_EQ(out, (std::vector<double>{0, 0, 1}));  // positions -2 and -1 see nothing
}

/// Rows are independent: those of a shorter run are bit for bit those of a longer one.
TEST(SpecS24, MatmulRowsDoNotDependOnTheirNumber) {
  const std::int64_t n_in = 577;
  const std::int64_t n_out = 37;
  const auto x = test::widened(test::random_values(9 * n_in, 1));
  const auto w = test::random_values(n_out * n_in, 2);
  std::vector<double> all(static_cast<std::size_t>(9 * n_out));
  reference::matmul(x.data(), 9, w.data(), n_out, n_in, nullptr, all.data());
  for (std::int64_t n_rows = 1; n_rows < 9; ++n_rows) {
    std::vector<double> some(static_cast<std::size_t>(n_rows * n_out));
    reference::matmul(x.data(), n_rows, w.data(), n_out, n_in, nullptr, some.data());
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << n_rows << " rows";
  }
}

TEST(SpecS24, AttentionRowsDoNotSeeLaterTokens) {
  const reference::AttentionShape shape{7, 7, 4, 2, 8, 0, 0.3};
  const auto q = test::widened(test::random_values(7 * 4 * 8, 3));
  auto k = test::widened(test::random_values(7 * 2 * 8, 4));
  auto v = test::widened(test::random_values(7 * 2 * 8, 5));
  std::vector<double> before(q.size());
  std::vector<double> after(q.size());
  reference::attention(shape, q.data(), k.data(), v.data(), before.data());
  k[5 * 16] += 1.0;  // token 5
  v[5 * 16] += 1.0;
  reference::attention(shape, q.data(), k.data(), v.data(), after.data());
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 5 * 32, after.begin()));
  EXPECT_FALSE(std::equal(before.begin() + 5 * 32, before.end(), after.begin() + 5 * 32));
}

}  // namespace
}  // namespace kvlab
