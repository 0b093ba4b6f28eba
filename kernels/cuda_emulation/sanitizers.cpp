// Listens to ThreadSanitizer, so that a race fails the launch in which it was seen.
#include "kernels/cuda_emulation/sanitizers.h"

namespace {
long n_reports = 0;
}

#if defined(KVLAB_THREAD_SANITIZER)
// The run-time library calls these by name. A race that was seen fails its launch, and so its test, rather than the
// whole program at its end; the same race must be told again to the next test that has it.
extern "C" void __tsan_on_report(void*) { ++n_reports; }
extern "C" const char* __tsan_default_options() {
  return "exitcode=0:suppress_equal_stacks=0:suppress_equal_addresses=0:report_bugs=1";
}
#endif

namespace kvlab::cuda::emulation {

long n_race_reports() { return n_reports; }

}  // namespace kvlab::cuda::emulation
