// How a kernel, or a stand-in for a library's, reaches the emulated device: at once, or into the graph that its stream
// records.
#pragma once

#include <functional>

#include "kernels/cuda/launch_shape.h"

struct CUstream_st;

namespace kvlab::cuda::emulation {

/// `body` is the kernel with its arguments, held by value. A null stream is the device's default one.
void launch(const char* kernel, const LaunchShape& shape, CUstream_st* stream, const std::function<void()>& body);

/// Work of the host that stands for a library's kernels.
void enqueue(CUstream_st* stream, std::function<void()> work);

}  // namespace kvlab::cuda::emulation
