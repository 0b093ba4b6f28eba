// Seeded inputs and the comparison that all kernel tests use: NaN fails, and a failure names the worst element.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/host_matrix.h"

namespace kvlab::test {

constexpr float kUntouched = 12345.0F;  // in gaps between rows: kernels must leave it there

/// Uniform in [-1, 1), the same on every machine.
inline std::vector<float> random_values(std::int64_t n, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = static_cast<float>(generator() >> 8) * 0x1p-23F - 1.0F;
  return values;
}

inline HostMatrix random_matrix(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  HostMatrix matrix(rows, cols);
  matrix.values = random_values(rows * cols, seed);
  return matrix;
}

inline float rounded(float value, DType dtype) {
  return dtype == DType::f32 ? value : bf16_to_float(bf16_from_float(value));
}

inline std::vector<double> widened(std::span<const float> values) { return {values.begin(), values.end()}; }

/// [n_rows, width] -> [n_rows, stride], gaps untouched.
inline std::vector<float> with_stride(std::span<const float> dense, std::int64_t width, std::int64_t stride) {
  std::vector<float> out;
  for (std::size_t i = 0; i < dense.size(); ++i) {
    out.push_back(dense[i]);
    const auto column = static_cast<std::int64_t>(i) % width;
    if (column == width - 1) out.insert(out.end(), static_cast<std::size_t>(stride - width), kUntouched);
  }
  return out;
}

/// The reverse of with_stride; gaps that were written to fail the test.
inline std::vector<float> without_stride(std::span<const float> strided, std::int64_t width, std::int64_t stride) {
  std::vector<float> out;
  for (std::size_t i = 0; i < strided.size(); ++i) {
    if (static_cast<std::int64_t>(i) % stride < width) {
      out.push_back(strided[i]);
    } else {
      EXPECT_EQ(strided[i], kUntouched) << "a gap was written to, at " << i;
    }
  }
  return out;
}

/// |actual - expected| <= bound, element by element.
inline void expect_within(std::span<const float> actual, std::span<const double> expected,
                          std::span<const double> bounds) {
  ASSERT_EQ(actual.size(), expected.size());
  ASSERT_EQ(actual.size(), bounds.size());
  std::size_t n_wrong = 0;
  std::size_t worst = 0;
  double worst_excess = -1.0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double error = std::fabs(actual[i] - expected[i]);
    if (error <= bounds[i]) continue;
    ++n_wrong;
    const double excess = std::isnan(error) ? INFINITY : error - bounds[i];
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  EXPECT_EQ(n_wrong, 0U) << "worst at " << worst << ": got " << actual[worst] << ", expected " << expected[worst]
                         << " within " << bounds[worst];
}

}  // namespace kvlab::test
