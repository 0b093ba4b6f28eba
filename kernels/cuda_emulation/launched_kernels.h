// Notes which kernels the emulator runs and in which shapes, for the check that no kernel is shipped that no test has
// run (scripts/cuda_launched.py).
#pragma once

#include "kernels/cuda/launch_shape.h"

namespace kvlab::cuda::emulation {

/// Where the environment names a file in KVLAB_LAUNCHED_KERNELS, adds the line "symbol block_size shared_bytes seed" to
/// it, once a process for each such line; the seed is that of the current device's order of threads. `kernel` is the
/// kernel's address; one whose symbol the program does not export is a test's own, and is left out.
void note_launch(const void* kernel, const LaunchShape& shape);

}  // namespace kvlab::cuda::emulation
