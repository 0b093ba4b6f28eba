#include "kernels/cuda/cupti/activity_records.h"

#include <cupti.h>
#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

namespace kvlab::cuda {
namespace {

// Later versions of the record only add members, so that this one reads those of every toolkit since 12.0.
using Kernel = CUpti_ActivityKernel9;

std::string demangled(const char* name) {
  if (name == nullptr) return "(unnamed)";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return text == nullptr ? name : text.get();
}

}  // namespace

void append_kernels(std::uint8_t* buffer, std::size_t valid_bytes, std::vector<KernelRecord>& kernels) {
  CUpti_Activity* record = nullptr;
  CUptiResult status = CUPTI_SUCCESS;
  while ((status = cuptiActivityGetNextRecord(buffer, valid_bytes, &record)) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && record->kind != CUPTI_ACTIVITY_KIND_KERNEL) continue;
    const auto* kernel = reinterpret_cast<const Kernel*>(record);
    const std::string name = demangled(kernel->name);
    if (kernel->start == 0 || kernel->end < kernel->start) {
      throw std::runtime_error("CUPTI could not time the kernel " + name);
    }
    kernels.push_back({name, static_cast<std::int64_t>(kernel->start), static_cast<std::int64_t>(kernel->end)});
  }
  if (status != CUPTI_ERROR_MAX_LIMIT_REACHED) {
    throw std::runtime_error("cuptiActivityGetNextRecord: a record that this CUPTI does not know");
  }
}

}  // namespace kvlab::cuda
