// Loads the module that traces kernels by CUPTI, which a run without `--kernel-times` never touches.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/cupti/kernel_trace.h"

namespace kvlab {

/// From `library`; "": libkvlab_cupti.so beside the program or in ../lib. Throws InputError that says why it cannot be
/// loaded.
std::unique_ptr<cuda::KernelTrace> load_kernel_trace(const std::string& library = "");

}  // namespace kvlab
