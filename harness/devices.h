// Where a model can run: the CPU, and backends in modules beside the program, which are loaded when they are asked for.
#pragma once

#include <memory>
#include <string>

#include "kernels/gemv_setting.h"
#include "kernels/operations.h"

namespace kvlab {

/// "cpu", "cuda" or (in test builds) "cuda-emulated" for what --device says; "auto" is cuda where it can be used, else
/// cpu, and standard error says so once. Throws InputError for a device that cannot be used, with the reason.
std::string resolve_device(const std::string& device);

/// The same; also refuses devices whose times mean nothing.
std::string resolve_measured_device(const std::string& device);

/// The backend of a resolved device. `threads` is for the CPU, `gemv` for the others.
std::unique_ptr<Operations> make_operations(const std::string& device, int threads, GemvSetting gemv);

/// Why CUDA cannot be used here; "" when it can.
std::string cuda_obstacle();
/// The GPU in words, where there is no obstacle.
std::string cuda_description();

}  // namespace kvlab
