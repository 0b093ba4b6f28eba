// Gives a checkpoint another number of KV heads by copying or averaging the rows of its K and V projections.

#include <fmt/format.h>

#include <utility>

#include "kernels/error.h"
#include "model/weight_source.h"

namespace kvlab {
namespace {

/// Head g of the result is head g * from / to of the source: query heads keep reading the K and V they read before.
HostMatrix replicated(const HostMatrix& source, std::int64_t from, std::int64_t to) {
  const std::int64_t head_values = static_cast<std::int64_t>(source.values.size()) / from;
  HostMatrix result(source.rows == 1 ? 1 : source.rows / from * to,
                    source.rows == 1 ? source.cols / from * to : source.cols);
  for (std::int64_t g = 0; g < to; ++g) {
    const auto begin = source.values.begin() + g * from / to * head_values;
    std::copy(begin, begin + head_values, result.values.begin() + g * head_values);
  }
  return result;
}

/// Head g of the result is the mean of the from / to source heads whose query heads it now serves (Ainslie et al.
/// 2023).
HostMatrix pooled(const HostMatrix& source, std::int64_t from, std::int64_t to) {
  const std::int64_t head_values = static_cast<std::int64_t>(source.values.size()) / from;
  const std::int64_t group = from / to;
  HostMatrix result(source.rows == 1 ? 1 : source.rows / group, source.rows == 1 ? source.cols / group : source.cols);
  for (std::int64_t g = 0; g < to; ++g) {
    for (std::int64_t i = 0; i < head_values; ++i) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < group; ++j) {
        sum += static_cast<double>(source.values[static_cast<std::size_t>((g * group + j) * head_values + i)]);
      }
      result.values[static_cast<std::size_t>(g * head_values + i)] =
          static_cast<float>(sum / static_cast<double>(group));
    }
  }
  return result;
}

class ReheadedWeights : public WeightSource {
 public:
  ReheadedWeights(std::shared_ptr<const WeightSource> source, std::int64_t n_kv_heads)
      : source_(std::move(source)), config_(source_->config()) {
    config_.n_kv_heads = n_kv_heads;
  }

  const ModelConfig& config() const override { return config_; }

  HostMatrix read(WeightRole role, std::int64_t layer) const override {
    HostMatrix matrix = source_->read(role, layer);
    if (!per_kv_head(role)) return matrix;
    const std::int64_t from = source_->config().n_kv_heads;
    const std::int64_t to = config_.n_kv_heads;
    return to >= from ? replicated(matrix, from, to) : pooled(matrix, from, to);
  }

  std::optional<RandomValues> drawn(WeightRole role, std::int64_t layer) const override {
    return per_kv_head(role) ? std::nullopt : source_->drawn(role, layer);
  }

 private:
  static bool per_kv_head(WeightRole role) {
    return role == WeightRole::k || role == WeightRole::v || role == WeightRole::k_bias || role == WeightRole::v_bias;
  }

  std::shared_ptr<const WeightSource> source_;
  ModelConfig config_;
};

}  // namespace

std::unique_ptr<WeightSource> rehead(std::shared_ptr<const WeightSource> source, std::int64_t n_kv_heads) {
  const ModelConfig& config = source->config();
  const bool divides = n_kv_heads >= 1 && config.n_heads % n_kv_heads == 0;
  if (!divides || (n_kv_heads % config.n_kv_heads != 0 && config.n_kv_heads % n_kv_heads != 0)) {
    throw InputError(
        fmt::format("{} KV heads: must divide the {} query heads and be a multiple or a divisor of the "
                    "checkpoint's {}",
                    n_kv_heads, config.n_heads, config.n_kv_heads));
  }
  return std::make_unique<ReheadedWeights>(std::move(source), n_kv_heads);
}

}  // namespace kvlab
