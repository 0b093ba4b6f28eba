// Seeded weights from a counter-based generator: element i of a tensor depends on (seed, role, layer, i) alone, so any
// part can be drawn anywhere, in any order, with the same bits.

#include <cmath>
#include <utility>

#include "kernels/random.h"
#include "model/weight_source.h"

namespace kvlab {
namespace {

/// Nearly normal, mean 0, standard deviation 1: the sum of four 16-bit uniforms, exact in integers.
float drawn(std::uint64_t stream, std::uint64_t i) {
  const std::uint64_t bits = scattered(stream ^ scattered(i));
  const auto sum =
      static_cast<std::int64_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
  constexpr double kScale =
      1.7320508075688772 / 65536.0;  // a uniform's deviation is its width / sqrt(12); sqrt(4) of them
  return static_cast<float>(static_cast<double>(sum - 2 * 65535) * kScale);
}

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
    const auto [mean, deviation] = moments(config_, role);
    const auto tensor =
        static_cast<std::uint64_t>(role) * 4096 + static_cast<std::uint64_t>(is_layer_role(role) ? layer : 0);
    const std::uint64_t stream = scattered(seed_ * 0x10001 + tensor);
    HostMatrix matrix(shape.rows, shape.cols);
    for (std::size_t i = 0; i < matrix.values.size(); ++i) {
      matrix.values[i] = static_cast<float>(mean + deviation * static_cast<double>(drawn(stream, i)));
    }
    return matrix;
  }

 private:
  ModelConfig config_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<WeightSource> make_synthetic_weights(const ModelConfig& config, std::uint64_t seed) {
  return std::make_unique<SyntheticWeights>(config, seed);
}

}  // namespace kvlab
