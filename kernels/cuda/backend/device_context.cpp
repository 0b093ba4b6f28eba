#include "kernels/cuda/backend/device_context.h"

#include <iterator>
#include <utility>

namespace kvlab::cuda {

DeviceContext::DeviceContext(std::unique_ptr<Runtime> runtime, std::unique_ptr<MatmulEngine> matmuls)
    : runtime_(std::move(runtime)),
      matmuls_(std::move(matmuls)),
      stream_(runtime_->make_stream()),
      n_multiprocessors_(runtime_->n_multiprocessors()) {}

DeviceContext::~DeviceContext() { runtime_->destroy_stream(stream_); }

bool DeviceContext::in_buffer(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  const auto next = buffers_.upper_bound(at);
  return next != buffers_.begin() && at < std::prev(next)->first + std::prev(next)->second;
}

void DeviceContext::upload(void* to, const void* from, std::size_t bytes) const {
  if (bytes == 0) return;
  runtime_->copy_to_device(to, from, bytes, stream_);
  runtime_->synchronize(stream_);
}

DeviceMemory::DeviceMemory(DeviceContext& context, std::size_t bytes, const std::string& name)
    : context_(context),
      bytes_(bytes),
      data_(bytes == 0 ? nullptr : context.runtime().allocate(bytes, name, context.stream())) {}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) context_.runtime().release(data_, context_.stream());
}

void ScratchMemory::reserve(std::size_t bytes) {
  if (bytes == 0 || (memory_ != nullptr && memory_->bytes() >= bytes)) return;
  memory_.reset();
  memory_ = std::make_unique<DeviceMemory>(context_, bytes, name_);
  context_.note_scratch_move();
}

}  // namespace kvlab::cuda
