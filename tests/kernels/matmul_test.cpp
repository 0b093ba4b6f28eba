// Packed products of both storage types against float64, at the edges of tiles and blocks.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cpu/packed_f32.h"
#include "kernels/operations.h"
#include "kernels/reference/operations.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"

namespace kvlab {
namespace {

struct ProductCase {
  std::int64_t n_rows;
  std::int64_t n_in;
  std::int64_t n_out;
  bool bias = false;
  bool accumulate = false;
  std::int64_t gap = 0;  // between rows of x and y
};

std::vector<double> magnitudes(const std::vector<double>& values) {
  std::vector<double> out;
  for (const double value : values) out.push_back(std::fabs(value));
  return out;
}

/// Expected values and bounds [n_rows, n_out].
struct Expected {
  std::vector<double> values;
  std::vector<double> bounds;
};

Expected expect_product(const ProductCase& c, const std::vector<float>& x, const HostMatrix& w,
                        const std::vector<float>& bias, const std::vector<float>& y) {
  HostMatrix abs_w = w;
  for (float& value : abs_w.values) value = std::fabs(value);
  std::vector<float> abs_bias = bias;
  for (float& value : abs_bias) value = std::fabs(value);
  Expected expected{std::vector<double>(y.size()), std::vector<double>(y.size())};
  const auto x64 = test::widened(x);
  reference::matmul(x64.data(), c.n_rows, w.values.data(), c.n_out, c.n_in, c.bias ? bias.data() : nullptr,
                    expected.values.data());
  reference::matmul(magnitudes(x64).data(), c.n_rows, abs_w.values.data(), c.n_out, c.n_in,
                    c.bias ? abs_bias.data() : nullptr, expected.bounds.data());
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (c.accumulate) expected.values[i] += y[i];
    expected.bounds[i] = test::matmul_bound(c.n_in, expected.bounds[i] + (c.accumulate ? std::fabs(y[i]) : 0.0F));
  }
  return expected;
}

void check_product(const ProductCase& c, DType dtype, int n_threads) {
  SCOPED_TRACE(testing::Message() << c.n_rows << " rows, " << c.n_in << " -> " << c.n_out << " "
                                  << std::string(dtype_name(dtype)) << (c.bias ? " bias" : "")
                                  << (c.accumulate ? " accumulate" : "") << " gap " << c.gap);
  HostMatrix w = test::random_matrix(c.n_out, c.n_in, 1);
  const auto x = test::random_values(c.n_rows * c.n_in, 2);
  const auto bias = test::random_values(c.n_out, 3);
  const auto y = test::random_values(c.n_rows * c.n_out, 4);
  const auto ops = make_cpu_operations(n_threads);
  const auto packed = ops->pack_matrix(w, dtype);
  EXPECT_EQ(packed->n_out(), c.n_out);
  EXPECT_EQ(packed->n_in(), c.n_in);
  EXPECT_EQ(packed->dtype(), dtype);
  for (float& value : w.values) value = test::rounded(value, dtype);

  const auto strided_x = test::with_stride(x, c.n_in, c.n_in + c.gap);
  auto out = test::with_stride(y, c.n_out, c.n_out + c.gap);
  ops->matmul(*packed, strided_x.data(), c.n_in + c.gap, c.n_rows, out.data(), c.n_out + c.gap,
              c.bias ? bias.data() : nullptr, c.accumulate);
  const Expected expected = expect_product(c, x, w, bias, y);
  test::expect_within(test::without_stride(out, c.n_out, c.n_out + c.gap), expected.values, expected.bounds);
}

class Matmul : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Storage, Matmul, testing::Values(DType::f32, DType::bf16),
                         [](const auto& chosen) { return std::string(dtype_name(chosen.param)); });

TEST_P(Matmul, RowsAroundEveryBlockEdge) {
  for (const std::int64_t n_rows : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 23, 95, 96, 97, 193}) {
    check_product({n_rows, 70, 37}, GetParam(), 1);
  }
}

TEST_P(Matmul, OutputsAroundTilesAndGroups) {
  for (const std::int64_t n_out : {1, 2, 15, 16, 17, 31, 63, 64, 65, 79, 127, 128, 129}) {
    check_product({1, 29, n_out}, GetParam(), 1);
    check_product({3, 29, n_out}, GetParam(), 1);
    check_product({20, 29, n_out}, GetParam(), 1);
  }
}

TEST_P(Matmul, InputsAroundBlocks) {
  for (const std::int64_t n_in : {1, 2, 7, 8, 255, 256, 257, 511, 513, 1009}) {
    check_product({1, n_in, 33}, GetParam(), 1);
    check_product({14, n_in, 33}, GetParam(), 1);
  }
}

TEST_P(Matmul, BiasAccumulateAndStrides) {
  for (const std::int64_t n_rows : {1, 5, 40}) {
    for (const bool bias : {false, true}) {
      for (const bool accumulate : {false, true}) {
        check_product({n_rows, 61, 50, bias, accumulate, 0}, GetParam(), 1);
        check_product({n_rows, 61, 50, bias, accumulate, 7}, GetParam(), 1);
      }
    }
  }
}

TEST_P(Matmul, LargeOnSeveralThreads) {
  check_product({1, 2048, 1031}, GetParam(), 3);
  check_product({130, 576, 960, true, true, 16}, GetParam(), 2);
}

TEST_P(Matmul, NoRowsIsNoWork) {
  const auto ops = make_cpu_operations(1);
  const auto packed = ops->pack_matrix(test::random_matrix(4, 4, 1), GetParam());
  ops->matmul(*packed, nullptr, 4, 0, nullptr, 4, nullptr, false);
}

TEST_P(Matmul, NanInOneRowStaysThere) {
  const auto ops = make_cpu_operations(1);
  const auto packed = ops->pack_matrix(test::random_matrix(20, 30, 1), GetParam());
  auto x = test::random_values(3 * 30, 2);
  x[30 + 4] = NAN;
  std::vector<float> y(60);
  ops->matmul(*packed, x.data(), 30, 3, y.data(), 20, nullptr, false);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 20 == 1) << i;
}

TEST(MatmulBf16, RowsDependNeitherOnTheirNumberNorOnThreads) {
  const std::int64_t n_in = 700;
  const std::int64_t n_out = 531;
  const auto x = test::random_values(101 * n_in, 1);
  const auto bias = test::random_values(n_out, 2);
  const HostMatrix w = test::random_matrix(n_out, n_in, 3);
  const auto product = [&](std::int64_t n_rows, int n_threads) {
    const auto ops = make_cpu_operations(n_threads);
    const auto packed = ops->pack_matrix(w, DType::bf16);
    std::vector<float> y(static_cast<std::size_t>(n_rows * n_out));
    ops->matmul(*packed, x.data(), n_in, n_rows, y.data(), n_out, bias.data(), false);
    return y;
  };
  const auto all = product(101, 1);
  for (const std::int64_t n_rows : {1, 2, 6, 7, 13, 96}) {
    for (const int n_threads : {1, 2, 3}) {
      const auto some = product(n_rows, n_threads);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << n_rows << " rows, " << n_threads << " threads";
    }
  }
}

TEST(MatmulF32, OneDnnHasAnOwnKernelForTheShapesInUse) {
  cpu::F32Products products;
  for (const std::int64_t n_rows : {1, 2, 16, 128, 512}) {
    for (const auto& [n_out, n_in] : {std::pair<std::int64_t, std::int64_t>{960, 576}, {576, 1536}, {2048, 2048}}) {
      EXPECT_NE(products.implementation(n_out, n_in, n_rows).substr(0, 3), "ref") << n_rows << " " << n_out;
    }
  }
}

TEST(MatmulF32, MatricesOfOneShapeShareTheirPreparedProducts) {
  cpu::F32Products products;
  const auto first = products.pack(test::random_matrix(40, 30, 1));
  const auto second = products.pack(test::random_matrix(40, 30, 2));
  const auto x = test::random_values(60, 3);
  std::vector<float> y(80);
  std::vector<float> again(80);
  first->multiply({x.data(), 30, 2, y.data(), 40, nullptr, false}, 1);
  second->multiply({x.data(), 30, 2, again.data(), 40, nullptr, false}, 1);
  EXPECT_EQ(products.n_prepared(), 1U);
  EXPECT_NE(y, again);
  second->multiply({x.data(), 30, 1, again.data(), 40, nullptr, false}, 1);
  EXPECT_EQ(products.n_prepared(), 2U);
}

TEST(Matmul, WrongInputIsRefused) {
  const auto ops = make_cpu_operations(1);
  EXPECT_THROW(ops->pack_matrix(HostMatrix(0, 4), DType::f32), std::invalid_argument);
  HostMatrix short_of_values(2, 2);
  short_of_values.values.pop_back();
  EXPECT_THROW(ops->pack_matrix(short_of_values, DType::bf16), std::invalid_argument);
  const auto table = ops->pack_table(test::random_matrix(3, 3, 1), DType::f32);
  float value = 0.0F;
  EXPECT_THROW(ops->matmul(*table, &value, 3, 1, &value, 3, nullptr, false), std::invalid_argument);
}

}  // namespace
}  // namespace kvlab
