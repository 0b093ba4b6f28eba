// The attention bound needs sums over keys; the other bounds are one line each and live in the header.
#include "tests/kernels/bounds.h"

#include <algorithm>
#include <cmath>

namespace kvlab::test {
namespace {

std::vector<double> magnitudes(std::vector<double> values) {
  for (double& value : values) value = std::fabs(value);
  return values;
}

/// The largest score error of one row and head, over the keys it sees.
double score_error(const reference::AttentionShape& shape, const double* q, const double* k, std::int64_t pos) {
  const std::int64_t first = shape.window > 0 ? std::max<std::int64_t>(0, pos - shape.window + 1) : 0;
  double largest = 0.0;
  for (std::int64_t j = first; j <= pos; ++j) {
    double size = 0.0;
    for (std::int64_t i = 0; i < shape.head_dim; ++i) {
      size += std::fabs(q[i] * k[j * shape.n_kv_heads * shape.head_dim + i]);
    }
    largest = std::max(largest, size * shape.scale);
  }
  return rounding_bound(shape.head_dim + 4, largest);
}

}  // namespace

std::vector<double> attention_bounds(const reference::AttentionShape& shape, const std::vector<double>& q,
                                     const std::vector<double>& k, const std::vector<double>& v, bool exact_scores) {
  std::vector<double> bounds(q.size());  // first sum w |v|, then the bound
  reference::attention(shape, q.data(), k.data(), magnitudes(v).data(), bounds.data());
  const std::int64_t group = shape.n_heads / shape.n_kv_heads;
  for (std::int64_t row = 0; row < shape.n_queries; ++row) {
    const std::int64_t pos = shape.kv_len - shape.n_queries + row;
    const std::int64_t n = pos + 1;
    for (std::int64_t head = 0; head < shape.n_heads; ++head) {
      const std::int64_t at = (row * shape.n_heads + head) * shape.head_dim;
      const double scores =
          exact_scores ? 0.0 : score_error(shape, q.data() + at, k.data() + head / group * shape.head_dim, pos);
      const double relative = 2.0 * (scores + rounding_bound(n + 4 * (n / 16 + 2) + 12, 1.0));
      for (std::int64_t i = 0; i < shape.head_dim; ++i) bounds[static_cast<std::size_t>(at + i)] *= relative;
    }
  }
  return bounds;
}

}  // namespace kvlab::test
