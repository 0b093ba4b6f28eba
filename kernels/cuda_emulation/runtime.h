// The emulated twin of the runtime services: work is done when it is asked for, or recorded into a graph. What a device
// might still be doing when the host goes on is watched: pinned memory that changes under a copy is found.
#pragma once

#include <functional>
#include <memory>

#include "kernels/cuda/runtime.h"
#include "kernels/cuda_emulation/device.h"

namespace kvlab::cuda::emulation {

/// Seconds since some moment, as a test would have them.
using Clock = std::function<double()>;

/// Uses `device`, which must outlive it. Without a clock, which only a test brings, elapsed_s gives nothing.
std::unique_ptr<Runtime> make_emulated_runtime(Device& device, Clock clock = {});

}  // namespace kvlab::cuda::emulation
