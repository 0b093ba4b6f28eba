// Parallel regions over shares. Only sources compiled for OpenMP include this.
#pragma once

#include <omp.h>

#include "kernels/cpu/share.h"

namespace kvlab::cpu {

/// Inside a region: calls run(Share) for the lanes that fall to this thread, whatever size the team came out.
template <class Run>
void for_own_lanes(int n_lanes, const Run& run) {
  const int team = omp_get_num_threads();
  for (int lane = omp_get_thread_num(); lane < n_lanes; lane += team) run(Share{lane, n_lanes});
}

/// Calls run(Share) once for each of `n_lanes` lanes, in a parallel region where there are several.
template <class Run>
void share_out(int n_lanes, const Run& run) {
  if (n_lanes == 1) {
    run(Share{});
    return;
  }
#pragma omp parallel num_threads(n_lanes)
  for_own_lanes(n_lanes, run);
}

}  // namespace kvlab::cpu
