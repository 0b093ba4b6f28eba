// Zeroed memory by calloc, which leaves large blocks untouched until they are used; the start is aligned by hand.
#include "kernels/cpu/memory.h"

#include <cstdint>
#include <limits>
#include <new>

namespace kvlab::cpu {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

AlignedBuffer::AlignedBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() - kAlignment) throw std::bad_alloc();
  std::size_t space = bytes + kAlignment;
  block_.reset(std::calloc(space, 1));
  if (!block_) throw std::bad_alloc();
  data_ = block_.get();
  std::align(kAlignment, bytes, data_, space);
}

float* Scratch::reserve(std::int64_t n_floats) {
  const std::size_t needed = static_cast<std::size_t>(n_floats) * sizeof(float);
  if (needed > bytes()) {
    buffer_.reset();
    buffer_ = std::make_unique<AlignedBuffer>(needed);
  }
  return data();
}

}  // namespace kvlab::cpu
