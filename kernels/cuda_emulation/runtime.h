// The emulated twin of the runtime services: work is done when it is asked for, or recorded into a graph.
#pragma once

#include <memory>

#include "kernels/cuda/runtime.h"
#include "kernels/cuda_emulation/device.h"

namespace kvlab::cuda::emulation {

/// Uses `device`, which must outlive it. It has no clock: elapsed_s gives nothing.
std::unique_ptr<Runtime> make_emulated_runtime(Device& device);

}  // namespace kvlab::cuda::emulation
