// Derives tolerances from sizes and rounding units instead of picking them.
#include "harness/tolerance.h"

#include <algorithm>
#include <cmath>

namespace kvlab {

namespace {

double rounding_walk(const ModelConfig& config, double unit, double largest_logit) {
  const auto longest =
      static_cast<double>(std::max({config.hidden, config.ffn_hidden, config.n_heads * config.head_dim}));
  const double n_products = 4.0 * static_cast<double>(config.n_layers) + 1.0;
  return 2.0 * unit * std::sqrt(longest * n_products) * largest_logit;
}

}  // namespace

double rounding_tolerance(const ModelConfig& config, double largest_logit, bool pooled) {
  const double amplification = pooled ? kPooledAmplification : 1.0;
  return amplification * std::max(kSmallestTolerance, rounding_walk(config, 0x1p-24, largest_logit));
}

double project_line(double largest_logit) { return 1e-3 * std::max(1.0, largest_logit / 10.0); }

double storage_tolerance(const ModelConfig& config, double largest_logit) {
  // Rounded storage errs once an element, not once a term, and its errors average out over a product: the length drops.
  const double n_products = 4.0 * static_cast<double>(config.n_layers) + 1.0;
  return std::max(kSmallestTolerance, 2.0 * 0x1p-9 * std::sqrt(n_products) * largest_logit);
}

double activation_tolerance(const ModelConfig& config, double largest_logit) {
  return 2.0 * storage_tolerance(config, largest_logit);
}

void compare_row(std::span<const float> actual, std::span<const double> expected, std::int64_t row,
                 Difference& so_far) {
  for (std::size_t id = 0; id < expected.size(); ++id) {
    const double difference = std::abs(static_cast<double>(actual[id]) - expected[id]);
    if (difference <= so_far.worst || std::isnan(so_far.worst)) continue;
    so_far = {difference, row, static_cast<std::int64_t>(id)};
  }
}

}  // namespace kvlab
