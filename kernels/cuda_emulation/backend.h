// The CUDA backend over the emulated device.
#pragma once

#include <memory>

#include "kernels/cuda_emulation/device.h"
#include "kernels/cuda_emulation/runtime.h"
#include "kernels/gemv_setting.h"
#include "kernels/operations.h"

namespace kvlab::cuda::emulation {

/// Uses `device`, which must outlive it and all that it made. It has the clock that a test brings, else none.
std::unique_ptr<Operations> make_emulated_operations(Device& device, GemvSetting gemv = GemvSetting::measured,
                                                     Clock clock = {});

}  // namespace kvlab::cuda::emulation
