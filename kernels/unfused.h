// Arithmetic that host and device must round alike: a product and a sum with a rounding each, which no compiler may
// join into one. The project's host flags forbid that (-ffp-contract=off); nvcc is told here.
#pragma once

#include "kernels/cuda/host_device.h"

namespace kvlab {

/// a * b + c, the product rounded before the sum.
KVLAB_HOST_DEVICE inline double multiply_add_unfused(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return __dadd_rn(__dmul_rn(a, b), c);
#else
  return a * b + c;
#endif
}

}  // namespace kvlab
