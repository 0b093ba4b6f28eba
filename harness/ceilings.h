// What this machine can read, copy and multiply per second, measured with the threads of the run.
#pragma once

#include <cstdint>

namespace kvlab {

struct Ceilings {
  double read_bytes_per_s = 0;
  double copy_bytes_per_s = 0;  // bytes read + bytes written
  double gemm_flops_per_s_f32 = 0;
  double gemm_flops_per_s_bf16 = 0;  // the product that bf16 weights run through
};

/// Takes about `budget_s` seconds. The fastest of several passes each, over arrays larger than the caches.
Ceilings measure_ceilings(int threads, double budget_s);

}  // namespace kvlab
