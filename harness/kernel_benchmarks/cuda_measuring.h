// Puts the CUDA entries before Google Benchmark: timed by the device's own clock, cold and warm, each GEMV by our
// kernel and by cuBLAS.
#pragma once

#include <string>

namespace kvlab {

/// Registers the entries of a device that can be used: "cuda", or "cuda-emulated", which runs a tiny set and times
/// nothing.
void register_cuda_benchmarks(const std::string& device);

}  // namespace kvlab
