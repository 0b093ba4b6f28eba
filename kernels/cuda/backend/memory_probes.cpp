#include "kernels/cuda/backend/memory_probes.h"

#include <utility>

#include "kernels/cuda/memory_passes.h"

namespace kvlab::cuda {

MemoryProbes::MemoryProbes(DeviceContext& context, Issue issue)
    : context_(context), issue_(std::move(issue)), sums_(context, "sums of what was read") {}

void MemoryProbes::read(const void* memory, std::size_t bytes, std::int64_t n_passes) {
  sums_.reserve(static_cast<std::size_t>(read_pass_sums(n_blocks())) * sizeof(std::uint32_t));
  issue_("read_passes", [=, n = n_blocks(), sums = sums_.as<std::uint32_t>()](CUstream_st* stream) {
    launch_read_passes(memory, static_cast<std::int64_t>(bytes), n_passes, n, sums, stream);
  });
}

void MemoryProbes::write(void* memory, std::size_t bytes, std::int64_t n_passes) {
  constexpr std::uint32_t kWord = 0x3C5A3C5AU;
  issue_("write_passes", [=, n = n_blocks()](CUstream_st* stream) {
    launch_write_passes(memory, static_cast<std::int64_t>(bytes), n_passes, n, kWord, stream);
  });
}

void MemoryProbes::copy(void* to, const void* from, std::size_t bytes, std::int64_t n_passes) {
  issue_("copy_passes", [=, n = n_blocks()](CUstream_st* stream) {
    launch_copy_passes(from, to, static_cast<std::int64_t>(bytes), n_passes, n, stream);
  });
}

void MemoryProbes::nothing() {
  issue_("nothing", [](CUstream_st* stream) { launch_nothing(stream); });
}

}  // namespace kvlab::cuda
