// Reference attention: one query head and one row at a time, scores written out, softmax over the whole row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/operations.h"

namespace kvlab::reference {
namespace {

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// One query row of one head over keys [first, last); k and v point at component 0 of the KV head at position 0.
template <typename Adjust>
void attend_row(const AttentionShape& shape, const double* q, const double* k, const double* v, std::int64_t first,
                std::int64_t last, const Adjust& adjust, double* out) {
  const std::int64_t kv_stride = shape.n_kv_heads * shape.head_dim;
  std::fill(out, out + shape.head_dim, 0.0);
  if (first >= last) return;
  std::vector<double> weights;  // [last - first]
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = first; j < last; ++j) {
    weights.push_back(dot(q, k + j * kv_stride, shape.head_dim) * shape.scale);
    largest = std::max(largest, weights.back());
  }
  double total = 0.0;
  for (double& weight : weights) {
    weight = std::exp(weight - largest);
    total += weight;
  }
  for (double& weight : weights) weight /= total;
  adjust(std::span(weights));
  for (std::int64_t j = first; j < last; ++j) {
    const double weight = weights[static_cast<std::size_t>(j - first)];
    for (std::int64_t i = 0; i < shape.head_dim; ++i) out[i] += weight * v[j * kv_stride + i];
  }
}

}  // namespace

void attention(const AttentionShape& shape, const double* q, const double* k, const double* v, double* out,
               const AdjustWeights& adjust) {
  const std::int64_t group = shape.n_heads / shape.n_kv_heads;
  const std::int64_t n_items = shape.n_queries * shape.n_heads;
#pragma omp parallel for schedule(dynamic, 4) if (n_items * shape.kv_len * shape.head_dim > 100'000)
  for (std::int64_t item = 0; item < n_items; ++item) {
    const std::int64_t row = item / shape.n_heads;
    const std::int64_t head = item % shape.n_heads;
    const std::int64_t pos = shape.kv_len - shape.n_queries + row;
    const std::int64_t first = shape.window > 0 ? std::max<std::int64_t>(0, pos - shape.window + 1) : 0;
    const std::int64_t kv_head = head / group;
    const auto adjust_row = [&](std::span<double> weights) {
      if (adjust) adjust(row, head, weights);
    };
    attend_row(shape, q + item * shape.head_dim, k + kv_head * shape.head_dim, v + kv_head * shape.head_dim, first,
               pos + 1, adjust_row, out + item * shape.head_dim);
  }
}

}  // namespace kvlab::reference
