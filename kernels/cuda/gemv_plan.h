// How a GEMV is cut into blocks. Plain C++, for the launcher, the kernel and tests.
#pragma once

#include <cstdint>

#include "kernels/cuda/gemv.h"

namespace kvlab::cuda {

constexpr int kGemvMaxBlock = 128;  // threads
constexpr int kGemvRows = 4;        // rows of the weight that a block takes; each read of x serves all of them
constexpr int kGemvStages = 2;      // steps whose weights are under way: a thread has kGemvRows * kGemvStages loads
                                    // of 16 bytes in flight

/// The instance that runs n_rows rows: the next of 1, 2, 4, 8.
constexpr int gemv_instance_rows(std::int64_t n_rows) {
  if (n_rows <= 2) return static_cast<int>(n_rows);
  return n_rows <= 4 ? 4 : 8;
}

struct GemvPlan {
  std::int64_t n_blocks = 0;
  int block_size = 0;     // threads, all along n_in
  int access_values = 0;  // neighbouring weights in one load: 16 bytes, or 1 where sizes or addresses forbid that
};

/// Blocks of 32 threads or more, so that a thread has about four loads of each row.
inline GemvPlan plan_gemv(const GemvCall& call, bool is_wide) {
  constexpr std::int64_t kLoadsPerThread = 4;
  GemvPlan plan;
  plan.access_values = is_wide ? static_cast<int>(16 / dtype_bytes(call.dtype)) : 1;
  const std::int64_t n_loads = (call.n_in + plan.access_values - 1) / plan.access_values;
  plan.block_size = 32;
  while (plan.block_size < kGemvMaxBlock && plan.block_size * kLoadsPerThread < n_loads) plan.block_size *= 2;
  plan.n_blocks = (call.n_out + kGemvRows - 1) / kGemvRows;
  return plan;
}

}  // namespace kvlab::cuda
