// Reference matrix product: blocks of output features, so that one transposed tile serves every row.
#include <algorithm>
#include <vector>

#include "kernels/reference/operations.h"

namespace kvlab::reference {
namespace {

constexpr std::int64_t kTileWidth = 16;  // output features side by side: enough independent sums to hide latency

/// w [n_features <= kTileWidth, n_in] -> tile [n_in, kTileWidth], missing features zero.
void transpose_tile(const float* w, std::int64_t n_features, std::int64_t n_in, double* tile) {
  for (std::int64_t j = 0; j < kTileWidth; ++j) {
    for (std::int64_t k = 0; k < n_in; ++k) tile[k * kTileWidth + j] = j < n_features ? w[j * n_in + k] : 0.0;
  }
}

void multiply_row(const double* x, const double* tile, std::int64_t n_in, double (&sums)[kTileWidth]) {
  std::fill(std::begin(sums), std::end(sums), 0.0);
  for (std::int64_t k = 0; k < n_in; ++k) {
    for (std::int64_t j = 0; j < kTileWidth; ++j) sums[j] += x[k] * tile[k * kTileWidth + j];
  }
}

}  // namespace

void matmul(const double* x, std::int64_t n_rows, const float* w, std::int64_t n_out, std::int64_t n_in,
            const float* bias, double* y) {
  const std::int64_t n_tiles = (n_out + kTileWidth - 1) / kTileWidth;
#pragma omp parallel if (n_rows * n_out * n_in > 100'000)
  {
    std::vector<double> tile(static_cast<std::size_t>(n_in * kTileWidth));  // [n_in, kTileWidth]
#pragma omp for schedule(static)
    for (std::int64_t t = 0; t < n_tiles; ++t) {
      const std::int64_t first = t * kTileWidth;
      const std::int64_t n_features = std::min(kTileWidth, n_out - first);
      transpose_tile(w + first * n_in, n_features, n_in, tile.data());
      for (std::int64_t r = 0; r < n_rows; ++r) {
        double sums[kTileWidth];
        multiply_row(x + r * n_in, tile.data(), n_in, sums);
        for (std::int64_t j = 0; j < n_features; ++j) {
          y[r * n_out + first + j] = sums[j] + (bias != nullptr ? bias[first + j] : 0.0F);
        }
      }
    }
  }
}

}  // namespace kvlab::reference
