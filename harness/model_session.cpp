// Opens checkpoints and packs weights once for all variants that can share them.
#include "harness/model_session.h"

#include <fmt/format.h>

#include "harness/progress.h"
#include "harness/threads.h"
#include "kernels/error.h"

namespace kvlab {

std::string resolve_device(const std::string& device) {
  if (device == "cpu" || device == "auto") return "cpu";
  if (device == "cuda") throw InputError("--device: this build has no CUDA backend yet; use cpu or auto");
  throw InputError(fmt::format("--device: there is no device \"{}\"; allowed are cpu, auto", device));
}

ModelSession::ModelSession(const std::string& model, const std::string& device, int threads, std::uint64_t seed)
    : threads_(resolve_threads(threads)), seed_(seed) {
  resolve_device(device);
  checkpoint_ = open_checkpoint(model, Need::weights, seed);
  ops_ = make_cpu_operations(threads_);
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
  packed_.push_back({variant, std::make_unique<Transformer>(ops_, checkpoint_.weights, variant, show)});
  return *packed_.back().transformer;
}

}  // namespace kvlab
