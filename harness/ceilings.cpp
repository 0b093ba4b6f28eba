// Measures memory bandwidth, matrix products and barriers with the threads, and the binding, that a run has.
#include "harness/ceilings.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "harness/machine.h"
#include "harness/memory_streams.h"
#include "harness/round.h"
#include "harness/statistics.h"
#include "kernels/operations.h"

namespace kvlab {
namespace {

constexpr std::int64_t kSquare = 2048;  // side of the matrices
constexpr std::int64_t kEmptySteps = 2000;

double gemm_flops_per_s(Operations& ops, DType storage, double budget_s) {
  const auto weight = ops.pack_matrix(varied_matrix(kSquare, kSquare), storage);
  const HostMatrix x = varied_matrix(kSquare, kSquare);
  HostMatrix y(kSquare, kSquare);
  const double seconds = fastest_seconds(budget_s, [&] {
    ops.matmul(*weight, x.values.data(), kSquare, kSquare, y.values.data(), kSquare, nullptr, false);
  });
  return 2.0 * static_cast<double>(kSquare * kSquare * kSquare) / seconds;
}

}  // namespace

HostMatrix varied_matrix(std::int64_t rows, std::int64_t cols) {
  HostMatrix matrix(rows, cols);
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    matrix.values[static_cast<std::size_t>(i)] = static_cast<float>(i % 251 - 125) / 125.0F;
  }
  return matrix;
}

std::int64_t main_memory_bytes() {
  const std::int64_t wanted = std::max<std::int64_t>(std::int64_t{512} << 20, 8 * last_level_cache_bytes());
  const std::int64_t allowed = read_machine().memory_available_bytes / 4;
  return allowed > 0 ? std::min(wanted, allowed) : wanted;
}

BarrierTimes measure_barriers(int threads, double budget_s) {
  constexpr int kBatch = 50;
  BarrierTimes times;
  times.fork_join_s = fastest_seconds(budget_s / 2, [threads] {
    for (int i = 0; i < kBatch; ++i) {
#pragma omp parallel num_threads(threads)
      std::atomic_signal_fence(std::memory_order_seq_cst);  // an empty region would be optimised away
    }
  });
  times.barrier_s = fastest_seconds(budget_s / 2, [threads] {
#pragma omp parallel num_threads(threads)
    for (int i = 0; i < kBatch; ++i) {
#pragma omp barrier
    }
  });
  times.barrier_s = std::max(0.0, times.barrier_s - times.fork_join_s / kBatch) / kBatch;
  times.fork_join_s /= kBatch;
  return times;
}

Ceilings measure_ceilings(int threads, double budget_s) {
  Ceilings ceilings;
  const StreamRates rates = MemoryStreams(main_memory_bytes(), threads).measure(budget_s / 2);
  ceilings.read_bytes_per_s = rates.read_bytes_per_s;
  ceilings.copy_bytes_per_s = rates.copy_bytes_per_s;
  ceilings.write_bytes_per_s = rates.write_bytes_per_s;
  const std::unique_ptr<Operations> ops = make_cpu_operations(threads);
  ceilings.gemm_flops_per_s_f32 = gemm_flops_per_s(*ops, DType::f32, budget_s / 4);
  ceilings.gemm_flops_per_s_bf16 = gemm_flops_per_s(*ops, DType::bf16, budget_s / 4);
  const BarrierTimes barriers = measure_barriers(threads, budget_s / 50);
  ceilings.fork_join_s = barriers.fork_join_s;
  ceilings.barrier_s = barriers.barrier_s;
  ceilings.harness_overhead_s = median(time_empty_steps(kEmptySteps));
  return ceilings;
}

}  // namespace kvlab
