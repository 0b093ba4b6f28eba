#include "model/one_layer.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/error.h"

namespace kvlab {
namespace {

class OneLayer final : public WeightSource {
 public:
  OneLayer(std::shared_ptr<const WeightSource> source, std::int64_t layer)
      : source_(std::move(source)), config_(source_->config()), layer_(layer) {
    config_.n_layers = 1;
    config_.name += fmt::format(", layer {} alone", layer);
  }

  const ModelConfig& config() const override { return config_; }
  HostMatrix read(WeightRole role, std::int64_t /*layer*/) const override { return source_->read(role, layer_); }
  std::optional<RandomValues> drawn(WeightRole role, std::int64_t /*layer*/) const override {
    return source_->drawn(role, layer_);
  }

 private:
  std::shared_ptr<const WeightSource> source_;
  ModelConfig config_;
  std::int64_t layer_;
};

}  // namespace

std::unique_ptr<WeightSource> one_layer(std::shared_ptr<const WeightSource> source, std::int64_t layer) {
  const std::int64_t n_layers = source->config().n_layers;
  if (layer < 0 || layer >= n_layers) {
    throw InputError(fmt::format("layer {}: {} has layers 0 to {}", layer, source->config().name, n_layers - 1));
  }
  return std::make_unique<OneLayer>(std::move(source), layer);
}

}  // namespace kvlab
