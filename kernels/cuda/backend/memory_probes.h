// What ceilings of the device are measured with: passes over memory and empty launches, as operations of the backend.
#pragma once

#include <functional>

#include "kernels/cuda/backend/device_context.h"
#include "kernels/device_probes.h"

namespace kvlab::cuda {

class MemoryProbes final : public DeviceProbes {
 public:
  using Launch = std::function<void(CUstream_st*)>;
  /// Runs a launch now or records it, under the name of an operation.
  using Issue = std::function<void(const char* operation, const Launch& launch)>;

  /// `context` outlives it.
  MemoryProbes(DeviceContext& context, Issue issue);

  std::int64_t l2_bytes() const override { return context_.runtime().l2_bytes(); }
  std::int64_t free_bytes() const override { return context_.runtime().free_bytes(); }
  void read(const void* memory, std::size_t bytes, std::int64_t n_passes) override;
  void write(void* memory, std::size_t bytes, std::int64_t n_passes) override;
  void copy(void* to, const void* from, std::size_t bytes, std::int64_t n_passes) override;
  void nothing() override;

 private:
  /// As many as the device holds at once.
  std::int64_t n_blocks() const { return 2 * context_.n_multiprocessors(); }

  DeviceContext& context_;
  Issue issue_;
  ScratchMemory sums_;  // [read_pass_sums(n_blocks())]
};

}  // namespace kvlab::cuda
