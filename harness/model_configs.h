// The checkpoints that a list of cases names, each opened once and without its weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "model/checkpoint.h"

namespace kvlab {

class ModelConfigs {
 public:
  explicit ModelConfigs(std::uint64_t seed) : seed_(seed) {}

  /// Configuration and tokenizer; good as long as this object. Throws InputError as open_checkpoint does.
  const Checkpoint& of(const std::string& model) {
    const auto known = opened_.find(model);
    if (known != opened_.end()) return known->second;
    return opened_.emplace(model, open_checkpoint(model, Need::config, seed_)).first->second;
  }

 private:
  std::uint64_t seed_;
  std::map<std::string, Checkpoint> opened_;
};

}  // namespace kvlab
