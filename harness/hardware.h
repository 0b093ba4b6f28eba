// What a device can do: datasheet numbers from configs/hardware, dense rates with where they come from; or this
// machine's, measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/dtype.h"

namespace kvlab {

struct Hardware {
  std::string name;
  std::string source;
  std::int64_t memory_bytes = 0;
  double memory_bytes_per_s = 0;
  double f32_flops_per_s = 0;
  double bf16_flops_per_s = 0;             // f32 accumulation
  std::optional<double> link_bytes_per_s;  // between devices, in one direction; absent where the datasheet has none
  std::vector<std::string> device_names;   // what NVML or /proc/cpuinfo calls such a device

  double flops_per_s(DType weight_dtype) const {
    return weight_dtype == DType::f32 ? f32_flops_per_s : bf16_flops_per_s;
  }
};

/// Names in configs/hardware, sorted.
std::vector<std::string> hardware_names();

/// Throws InputError listing the names when there is none of that name, or naming file and key when it is malformed.
Hardware load_hardware(const std::string& name);

/// This machine: the memory that is free now, and its ceilings on `threads` threads, measured for about a second.
Hardware measure_this_machine(int threads);

/// The datasheet that lists `device_name` among its device_names; nothing when none does. Broken files are passed over:
/// whoever asks for one by name hears of it.
std::optional<Hardware> hardware_of_device(const std::string& device_name);

}  // namespace kvlab
