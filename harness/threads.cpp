// Thread count from OpenMP, binding by re-executing the program with the variables that OpenMP reads at start.
#include "harness/threads.h"

#include <omp.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace kvlab {

int resolve_threads(int wanted) { return wanted > 0 ? wanted : omp_get_max_threads(); }

void bind_threads(int threads, char** argv) {
  constexpr const char* kGuard = "KVLAB_THREADS_BOUND";
  if (threads <= 1 || std::getenv(kGuard) != nullptr) return;
  constexpr int kKeepExisting = 0;
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), kKeepExisting);
  setenv("OMP_PROC_BIND", "true", kKeepExisting);
  setenv("OMP_PLACES", "cores", kKeepExisting);
  setenv(kGuard, "1", kKeepExisting);
  execv("/proc/self/exe", argv);  // returns only when it fails: then the run goes on unbound
}

}  // namespace kvlab
