// One open checkpoint, its backend, and the packed weights that variants share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/gemv_setting.h"
#include "model/checkpoint.h"
#include "model/transformer.h"

namespace kvlab {

class ModelSession {
 public:
  /// Opens the weights. Loading progress goes to standard error when it takes over a second.
  ModelSession(const std::string& model, const std::string& device, int threads, std::uint64_t seed,
               GemvSetting gemv = GemvSetting::measured);
  /// Of an open checkpoint, over a backend that is there.
  ModelSession(Checkpoint checkpoint, std::shared_ptr<Operations> ops, int threads, std::uint64_t seed)
      : checkpoint_(std::move(checkpoint)), threads_(threads), seed_(seed), ops_(std::move(ops)) {}

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const ModelConfig& config() const { return checkpoint_.config; }
  Operations& operations() const { return *ops_; }
  /// Memory that weights, caches and activations may take: the device's, or the host's; 0 where the system does not
  /// say.
  std::int64_t available_memory_bytes() const;
  int threads() const { return threads_; }
  std::uint64_t seed() const { return seed_; }

  /// The transformer for a variant: one whose weights it can share, or a new one. Lives until drop_weights.
  Transformer& transformer(const Variant& variant);
  /// What packing the variant's weights moved to the device.
  Transfers load_transfers(const Variant& variant) const;
  /// Whether `transformer` would have to pack weights.
  bool needs_packing(const Variant& variant) const;
  void drop_weights() { packed_.clear(); }
  /// From here on the model is its embedding, this one layer and its head (model/one_layer.h); packed weights go.
  void keep_layer(std::int64_t layer);

 private:
  struct Packed {
    Variant variant;
    std::unique_ptr<Transformer> transformer;
    Transfers load;
  };

  Checkpoint checkpoint_;
  int threads_;
  std::uint64_t seed_;
  std::shared_ptr<Operations> ops_;
  std::vector<Packed> packed_;
};

}  // namespace kvlab
