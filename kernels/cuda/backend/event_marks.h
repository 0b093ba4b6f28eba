// Moments on the stream, by events that are used again.
#pragma once

#include <memory>

#include "kernels/cuda/backend/device_context.h"
#include "kernels/operations.h"

namespace kvlab::cuda {

class EventMarks {
 public:
  explicit EventMarks(std::shared_ptr<DeviceContext> context);

  std::unique_ptr<TimeMark> mark();

 private:
  struct Pool;
  std::shared_ptr<Pool> pool_;
};

}  // namespace kvlab::cuda
