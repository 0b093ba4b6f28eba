// RMSNorm and LayerNorm: each row read twice, sums kept in sixteen parts so that the compiler can use vectors.
#include <array>
#include <cmath>
#include <numeric>

#include "kernels/cpu/rows.h"

namespace kvlab::cpu {
namespace {

constexpr std::int64_t kParts = 16;

/// Sum of (x - shift)^power over a row, power 1 or 2. The order of additions depends on the width alone.
template <int power>
float sum_powers(const float* x, std::int64_t width, float shift) {
  std::array<float, kParts> parts{};
  const auto term = [shift](float value) {
    const float difference = value - shift;
    return power == 1 ? difference : difference * difference;
  };
  std::int64_t j = 0;
  for (; j + kParts <= width; j += kParts) {
    for (std::int64_t p = 0; p < kParts; ++p) parts[static_cast<std::size_t>(p)] += term(x[j + p]);
  }
  for (; j < width; ++j) parts[0] += term(x[j]);
  return std::accumulate(parts.begin(), parts.end(), 0.0F);
}

}  // namespace

void rms_norm(Rows<const float> x, std::int64_t n_rows, std::int64_t width, const float* weight, float eps,
              Rows<float> y, Share share) {
  const ItemRange rows = part_of(n_rows, share);
  for (std::int64_t r = rows.first; r < rows.last; ++r) {
    const float* in = x.data + r * x.stride;
    float* out = y.data + r * y.stride;
    const float mean_square = sum_powers<2>(in, width, 0.0F) / static_cast<float>(width);
    const float factor = 1.0F / std::sqrt(mean_square + eps);
    for (std::int64_t j = 0; j < width; ++j) out[j] = in[j] * factor * weight[j];
  }
}

void layer_norm(Rows<const float> x, std::int64_t n_rows, std::int64_t width, const float* weight, const float* bias,
                float eps, Rows<float> y, Share share) {
  const ItemRange rows = part_of(n_rows, share);
  for (std::int64_t r = rows.first; r < rows.last; ++r) {
    const float* in = x.data + r * x.stride;
    float* out = y.data + r * y.stride;
    const float mean = sum_powers<1>(in, width, 0.0F) / static_cast<float>(width);
    const float variance = sum_powers<2>(in, width, mean) / static_cast<float>(width);
    const float factor = 1.0F / std::sqrt(variance + eps);
    for (std::int64_t j = 0; j < width; ++j) out[j] = (in[j] - mean) * factor * weight[j] + bias[j];
  }
}

}  // namespace kvlab::cpu
