// Seeded weights by formula (kernels/random.h): element i of a tensor depends on (seed, role, layer, i) alone, so a
// device fills its own memory with the bits that the host would have sent.

#include <cmath>
#include <utility>

#include "kernels/random.h"
#include "model/weight_source.h"

namespace kvlab {
namespace {

/// Mean and deviation of a role, chosen so that activations stay of order one and logits are spread enough to have a
/// clear first choice.
std::pair<double, double> moments(const ModelConfig& config, WeightRole role) {
  const auto fan_in = [](std::int64_t n) { return 1.0 / std::sqrt(static_cast<double>(n)); };
  const double residual = 1.0 / std::sqrt(2.0 * static_cast<double>(config.n_layers));
  switch (role) {
    case WeightRole::token_embedding:
      return {0.0, config.tied_embedding ? 4.0 * fan_in(config.hidden) : 1.0};
    case WeightRole::position_embedding:
      return {0.0, fan_in(config.hidden)};
    case WeightRole::lm_head:
      return {0.0, 4.0 * fan_in(config.hidden)};
    case WeightRole::q:
    case WeightRole::k:
      return {0.0, 1.5 * fan_in(config.hidden)};
    case WeightRole::v:
    case WeightRole::gate:
    case WeightRole::up:
      return {0.0, fan_in(config.hidden)};
    case WeightRole::attention_output:
      return {0.0, residual * fan_in(config.n_heads * config.head_dim)};
    case WeightRole::down:
      return {0.0, residual * fan_in(config.ffn_hidden)};
    case WeightRole::attention_norm:
    case WeightRole::mlp_norm:
    case WeightRole::final_norm:
    case WeightRole::q_norm:
    case WeightRole::k_norm:
      return {1.0, 0.1};
    default:
      return {0.0, 0.05};  // biases
  }
}

class SyntheticWeights : public WeightSource {
 public:
  SyntheticWeights(ModelConfig config, std::uint64_t seed) : config_(std::move(config)), seed_(seed) {}

  const ModelConfig& config() const override { return config_; }

  HostMatrix read(WeightRole role, std::int64_t layer) const override {
    const RoleShape shape = role_shape(config_, role);
    const RandomValues values = values_of(role, layer);
    HostMatrix matrix(shape.rows, shape.cols);
    for (std::size_t i = 0; i < matrix.values.size(); ++i) matrix.values[i] = random_value(values, i);
    return matrix;
  }

  std::optional<RandomValues> drawn(WeightRole role, std::int64_t layer) const override {
    return values_of(role, layer);
  }

 private:
  RandomValues values_of(WeightRole role, std::int64_t layer) const {
    const auto [mean, deviation] = moments(config_, role);
    const auto tensor =
        static_cast<std::uint64_t>(role) * 4096 + static_cast<std::uint64_t>(is_layer_role(role) ? layer : 0);
    return {scattered(seed_ * 0x10001 + tensor), mean, deviation};
  }

  ModelConfig config_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<WeightSource> make_synthetic_weights(const ModelConfig& config, std::uint64_t seed) {
  return std::make_unique<SyntheticWeights>(config, seed);
}

}  // namespace kvlab
