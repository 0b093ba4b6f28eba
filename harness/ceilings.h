// What this machine can read, write, copy and multiply per second, and what a barrier costs, with the threads of the
// run: the few numbers that a report divides by. Tables of them by size, threads and rows: ceiling_tables.h.
#pragma once

#include <cstdint>

#include "kernels/host_matrix.h"

namespace kvlab {

struct Ceilings {
  double read_bytes_per_s = 0;
  double copy_bytes_per_s = 0;  // bytes read + bytes written
  double gemm_flops_per_s_f32 = 0;
  double gemm_flops_per_s_bf16 = 0;  // the product that bf16 weights run through
  double write_bytes_per_s = 0;      // here and below 0 stands for what was not measured
  double fork_join_s = 0;            // an empty parallel region
  double barrier_s = 0;              // one barrier inside a region
  double harness_overhead_s = 0;     // a timed step of a model that does nothing
  double launch_s = 0;               // here and below, of a device: an empty kernel among others launched one by one
  double graph_launch_s = 0;         // the same within a graph
  double event_s = 0;                // an event between two others
  double launch_round_trip_s = 0;    // by the host's clock: an empty kernel, and the wait until its end is known
};

/// Seconds; the fastest of several batches.
struct BarrierTimes {
  double fork_join_s =
      0;                 // an empty parallel region: what an operation pays for its threads, as a launch does on a GPU
  double barrier_s = 0;  // one barrier inside a region
};
BarrierTimes measure_barriers(int threads, double budget_s);

/// A working set that no cache holds: 8 times the largest one and 512 MiB at least, as far as a quarter of the free
/// memory allows.
std::int64_t main_memory_bytes();

/// [rows, cols], of order one, that neither vanish nor repeat in a row.
HostMatrix varied_matrix(std::int64_t rows, std::int64_t cols);

/// Takes about `budget_s` seconds. The fastest of several passes each, over arrays larger than the caches.
Ceilings measure_ceilings(int threads, double budget_s);

}  // namespace kvlab
