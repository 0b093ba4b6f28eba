// CUPTI's activity interface: it asks for buffers and hands them back filled, on threads of its own.
#include "kernels/cuda/cupti/kernel_trace.h"

#include <cupti.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "kernels/cuda/cupti/activity_records.h"

namespace kvlab::cuda {
namespace {

constexpr std::size_t kBufferBytes = 4 << 20;
constexpr std::align_val_t kBufferAlignment{16};
constexpr auto kKind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;  // with the nodes of graphs

void check(CUptiResult status, const char* call) {
  if (status == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  cuptiGetResultString(status, &text);
  throw std::runtime_error(std::string(call) + ": " + (text == nullptr ? std::to_string(status) : text));
}

/// What the callbacks, which take no argument of ours, have gathered.
struct Gathered {
  std::mutex mutex;
  std::vector<KernelRecord> kernels;
  std::exception_ptr error;  // the first; a callback may not throw through CUPTI
};

Gathered& gathered() {
  static Gathered all;
  return all;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(::operator new(kBufferBytes, kBufferAlignment, std::nothrow));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  Gathered& all = gathered();
  const std::lock_guard lock(all.mutex);
  try {
    if (valid_bytes > 0) append_kernels(buffer, valid_bytes, all.kernels);
  } catch (...) {
    if (!all.error) all.error = std::current_exception();
  }
  ::operator delete(buffer, kBufferAlignment);
}

class CuptiTrace : public KernelTrace {
 public:
  CuptiTrace() { check(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks"); }

  void start() override {
    check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
    take();  // what came before is not wanted
    check(cuptiActivityEnable(kKind), "cuptiActivityEnable");
  }

  std::vector<KernelRecord> stop() override {
    check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
    check(cuptiActivityDisable(kKind), "cuptiActivityDisable");
    std::size_t dropped = 0;
    check(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), "cuptiActivityGetNumDroppedRecords");
    if (dropped > 0) throw std::runtime_error("CUPTI lost " + std::to_string(dropped) + " records");
    std::vector<KernelRecord> kernels = take();
    std::stable_sort(kernels.begin(), kernels.end(),
                     [](const KernelRecord& a, const KernelRecord& b) { return a.start_ns < b.start_ns; });
    return kernels;
  }

 private:
  static std::vector<KernelRecord> take() {
    Gathered& all = gathered();
    const std::lock_guard lock(all.mutex);
    if (all.error) std::rethrow_exception(std::exchange(all.error, nullptr));
    return std::exchange(all.kernels, {});
  }
};

}  // namespace
}  // namespace kvlab::cuda

extern "C" kvlab::cuda::KernelTrace* kvlab_make_kernel_trace() { return new kvlab::cuda::CuptiTrace; }
