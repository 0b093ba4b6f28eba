// Stands in for cuBLAS where no GPU is: executes a call as it is described, on memory of the host or the emulated
// device.
#pragma once

#include "kernels/cuda/matmul_call.h"

namespace kvlab::cuda::emulation {

/// Each element is one f32 sum in ascending order of k, then alpha, beta * d (not read when beta is 0) and bias,
/// rounded to d's type last.
void execute_matmul(const MatmulCall& call, const MatmulOperands& operands);

}  // namespace kvlab::cuda::emulation
