// Who executes matrix products for the backend: cuBLASLt on a device, its stand-in under emulation.
#pragma once

#include "kernels/cuda/matmul_call.h"

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t

namespace kvlab::cuda {

class MatmulEngine {
 public:
  virtual ~MatmulEngine() = default;
  /// Returns at once; the work is done in the order of `stream`. Operands are device pointers.
  virtual void multiply(const MatmulCall& call, const MatmulOperands& operands, CUstream_st* stream) = 0;
};

}  // namespace kvlab::cuda
