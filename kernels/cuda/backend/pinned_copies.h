// Copies to the host that nobody waits for yet, in pinned memory that is used again.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/cuda/backend/device_context.h"
#include "kernels/operations.h"

namespace kvlab::cuda {

class PinnedCopies {
 public:
  explicit PinnedCopies(std::shared_ptr<DeviceContext> context);

  /// Copies `bytes` after the stream's work so far, and returns at once.
  std::unique_ptr<PendingCopy> start(const void* from, std::size_t bytes);

 private:
  struct Pool;
  std::shared_ptr<Pool> pool_;
};

}  // namespace kvlab::cuda
