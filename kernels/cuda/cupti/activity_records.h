// From a buffer that CUPTI filled to kernel records. Needs the library, no GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/cupti/kernel_trace.h"

namespace kvlab::cuda {

/// Appends the kernels among the activity records of `buffer`, of which `valid_bytes` are filled; other kinds are
/// passed over. Throws std::runtime_error for a buffer that CUPTI cannot walk, and for a kernel without times.
void append_kernels(std::uint8_t* buffer, std::size_t valid_bytes, std::vector<KernelRecord>& kernels);

}  // namespace kvlab::cuda
