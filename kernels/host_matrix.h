// A row-major f32 matrix in host memory: what a checkpoint hands to a backend before packing.
#pragma once

#include <cstdint>
#include <vector>

namespace kvlab {

struct HostMatrix {
  std::int64_t rows = 0;      // output features (a vector has rows = 1)
  std::int64_t cols = 0;      // input features
  std::vector<float> values;  // [rows, cols]

  HostMatrix() = default;
  HostMatrix(std::int64_t n_rows, std::int64_t n_cols)
      : rows(n_rows), cols(n_cols), values(static_cast<std::size_t>(n_rows * n_cols)) {}
  const float* row(std::int64_t r) const { return values.data() + r * cols; }
  float* row(std::int64_t r) { return values.data() + r * cols; }
};

}  // namespace kvlab
