// Which kernels ran and when, told by CUPTI. The module kvlab_cupti implements it and is loaded when it is asked for;
// this header includes no CUDA header. One trace a process: CUPTI's records are the process's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvlab::cuda {

/// One execution, on the device's clock.
struct KernelRecord {
  std::string name;  // demangled, with template and function arguments
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;

  bool operator==(const KernelRecord&) const = default;
};

/// Throws std::runtime_error naming the call when CUPTI fails, or when it lost records.
class KernelTrace {
 public:
  virtual ~KernelTrace() = default;
  virtual void start() = 0;
  /// Kernels that ended since start(), by start. The caller has waited for the device's work.
  virtual std::vector<KernelRecord> stop() = 0;
};

/// What the module exports: makes the trace.
constexpr const char* kMakeKernelTrace = "kvlab_make_kernel_trace";
using MakeKernelTrace = KernelTrace* (*)();

}  // namespace kvlab::cuda
