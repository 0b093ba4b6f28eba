// Opens checkpoints and packs weights once for all variants that can share them.
#include "harness/model_session.h"

#include <fmt/format.h>

#include "harness/devices.h"
#include "harness/machine.h"
#include "harness/progress.h"
#include "harness/threads.h"
#include "model/one_layer.h"

namespace kvlab {

ModelSession::ModelSession(const std::string& model, const std::string& device, int threads, std::uint64_t seed,
                           GemvSetting gemv)
    : threads_(resolve_threads(threads)), seed_(seed) {
  const std::string resolved = resolve_device(device);
  checkpoint_ = open_checkpoint(model, Need::weights, seed);
  ops_ = make_operations(resolved, threads_, gemv);
}

std::int64_t ModelSession::available_memory_bytes() const {
  const DeviceProbes* device = ops_->probes();
  return device == nullptr ? read_machine().memory_available_bytes : device->free_bytes();
}

bool ModelSession::needs_packing(const Variant& variant) const {
  for (const Packed& packed : packed_) {
    if (Transformer::same_weights(packed.variant, variant)) return false;
  }
  return true;
}

Transformer& ModelSession::transformer(const Variant& variant) {
  for (Packed& packed : packed_) {
    if (Transformer::same_weights(packed.variant, variant)) return *packed.transformer;
  }
  Progress progress;
  const auto show = [&](std::int64_t done, std::int64_t total) {
    progress.tick(fmt::format("loading {}: layer {} of {}", checkpoint_.config.name, done, total));
  };
  const Transfers before = ops_->transfers();
  auto made = std::make_unique<Transformer>(ops_, checkpoint_.weights, variant, show);
  packed_.push_back({variant, std::move(made), ops_->transfers() - before});
  return *packed_.back().transformer;
}

Transfers ModelSession::load_transfers(const Variant& variant) const {
  for (const Packed& packed : packed_) {
    if (Transformer::same_weights(packed.variant, variant)) return packed.load;
  }
  return {};
}

void ModelSession::keep_layer(std::int64_t layer) {
  drop_weights();
  checkpoint_.weights = one_layer(checkpoint_.weights, layer);
  checkpoint_.config = checkpoint_.weights->config();
}

}  // namespace kvlab
