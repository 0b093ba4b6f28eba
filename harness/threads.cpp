// Thread count from OpenMP, binding by re-executing the program with the variables that OpenMP reads at start.
#include "harness/threads.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace kvlab {

int resolve_threads(int wanted) { return wanted > 0 ? wanted : omp_get_max_threads(); }

void allow_all_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> processors(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, processors.data());
    for (const int processor : processors) {
      if (processor < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(processor), &allowed);
    }
  }
  if (CPU_COUNT(&allowed) > 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

void bind_threads(int threads, char** argv) {
  constexpr const char* kGuard = "KVLAB_THREADS_BOUND";
  if (threads <= 1 || std::getenv(kGuard) != nullptr) return;
  constexpr int kKeepExisting = 0;
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), kKeepExisting);
  setenv("OMP_PROC_BIND", "true", kKeepExisting);
  setenv("OMP_PLACES", "cores", kKeepExisting);
  setenv(kGuard, "1", kKeepExisting);
  allow_all_processors();
  execv("/proc/self/exe", argv);  // returns only when it fails: then the run goes on unbound
}

}  // namespace kvlab
