// Reference lookup, sums, norms, rotation and activations: one loop per formula.
#include <cmath>
#include <numbers>

#include "kernels/reference/operations.h"

namespace kvlab::reference {

void embed(const float* table, std::int64_t width, std::span<const std::int32_t> ids, double* out) {
  for (const std::int32_t id : ids) {
    const float* row = table + std::int64_t{id} * width;
    for (std::int64_t j = 0; j < width; ++j) *out++ = row[j];
  }
}

void add(const double* x, std::int64_t n_values, double* y) {
  for (std::int64_t i = 0; i < n_values; ++i) y[i] += x[i];
}

void rms_norm(const double* x, std::int64_t n_rows, std::int64_t width, const float* weight, double eps, double* y) {
  for (std::int64_t r = 0; r < n_rows; ++r, x += width, y += width) {
    double squares = 0.0;
    for (std::int64_t j = 0; j < width; ++j) squares += x[j] * x[j];
    const double rms = std::sqrt(squares / static_cast<double>(width) + eps);
    for (std::int64_t j = 0; j < width; ++j) y[j] = x[j] / rms * weight[j];
  }
}

void layer_norm(const double* x, std::int64_t n_rows, std::int64_t width, const float* weight, const float* bias,
                double eps, double* y) {
  const double n = static_cast<double>(width);
  for (std::int64_t r = 0; r < n_rows; ++r, x += width, y += width) {
    double sum = 0.0;
    for (std::int64_t j = 0; j < width; ++j) sum += x[j];
    const double mean = sum / n;
    double squares = 0.0;
    for (std::int64_t j = 0; j < width; ++j) squares += (x[j] - mean) * (x[j] - mean);
    const double deviation = std::sqrt(squares / n + eps);
    for (std::int64_t j = 0; j < width; ++j) y[j] = (x[j] - mean) / deviation * weight[j] + bias[j];
  }
}

void rope(double* x, std::int64_t n_rows, std::int64_t n_heads, std::int64_t head_dim, const std::int32_t* positions,
          const double* frequencies) {
  const std::int64_t half = head_dim / 2;
  for (std::int64_t r = 0; r < n_rows; ++r) {
    for (std::int64_t h = 0; h < n_heads; ++h, x += head_dim) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = positions[r] * frequencies[i];
        const double a = x[i];
        const double b = x[i + half];
        x[i] = a * std::cos(angle) - b * std::sin(angle);
        x[i + half] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }
}

void silu_multiply(const double* gate, const double* up, std::int64_t n_values, double* out) {
  for (std::int64_t i = 0; i < n_values; ++i) out[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
}

void gelu(double* x, std::int64_t n_values) {
  const double factor = std::sqrt(2.0 * std::numbers::inv_pi);
  for (std::int64_t i = 0; i < n_values; ++i) {
    const double value = x[i];
    x[i] = 0.5 * value * (1.0 + std::tanh(factor * (value + 0.044715 * value * value * value)));
  }
}

}  // namespace kvlab::reference
