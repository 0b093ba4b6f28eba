// One product of a backend against float64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/reference/operations.h"
#include "tests/kernels/backend/loaded_backend.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"

namespace kvlab::test {

struct ProductCase {
  std::int64_t n_rows;
  std::int64_t n_in;
  std::int64_t n_out;
  bool bias = false;
  bool accumulate = false;
  std::int64_t gap = 0;
};

/// With bf16 weights the device rounds x to bf16 too.
inline void check_product(Operations& ops, const ProductCase& c, DType dtype) {
  SCOPED_TRACE(testing::Message() << c.n_rows << " rows, " << c.n_in << " -> " << c.n_out << " "
                                  << std::string(dtype_name(dtype)) << (c.bias ? " bias" : "")
                                  << (c.accumulate ? " accumulate" : "") << " gap " << c.gap);
  HostMatrix w = random_matrix(c.n_out, c.n_in, 1);
  auto x = random_values(c.n_rows * c.n_in, 2);
  const auto bias = random_values(c.n_out, 3);
  const auto y = random_values(c.n_rows * c.n_out, 4);
  const auto packed = ops.pack_matrix(w, dtype);
  const BufferOf<float> in(with_stride(x, c.n_in, c.n_in + c.gap), ops);
  const BufferOf<float> shift(bias, ops);
  const BufferOf<float> out(with_stride(y, c.n_out, c.n_out + c.gap), ops);
  ops.matmul(*packed, in.data(), c.n_in + c.gap, c.n_rows, out.data(), c.n_out + c.gap, c.bias ? shift.data() : nullptr,
             c.accumulate);

  for (float& value : w.values) value = rounded(value, dtype);
  for (float& value : x) value = rounded(value, dtype);
  std::vector<double> expected(y.size());
  reference::matmul(widened(x).data(), c.n_rows, w.values.data(), c.n_out, c.n_in, c.bias ? bias.data() : nullptr,
                    expected.data());
  std::vector<double> bounds;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const float held = c.accumulate ? y[i] : 0.0F;
    expected[i] += held;
    double magnitude = std::fabs(held) + (c.bias ? std::fabs(bias[i % bias.size()]) : 0.0F);
    const std::size_t row = i / static_cast<std::size_t>(c.n_out);
    const std::size_t column = i % static_cast<std::size_t>(c.n_out);
    const auto n_in = static_cast<std::size_t>(c.n_in);
    for (std::size_t k = 0; k < n_in; ++k) magnitude += std::fabs(x[row * n_in + k] * w.values[column * n_in + k]);
    bounds.push_back(matmul_bound(c.n_in, magnitude));
  }
  expect_within(without_stride(out.values(), c.n_out, c.n_out + c.gap), expected, bounds);
}

}  // namespace kvlab::test
