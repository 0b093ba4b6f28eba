// Host memory of the CPU backend: zeroed, 64-byte aligned buffers, and scratch that grows and is kept.
#pragma once

#include <cstdlib>
#include <memory>

#include "kernels/operations.h"

namespace kvlab::cpu {

class AlignedBuffer final : public Buffer {
 public:
  /// Throws std::bad_alloc when the memory is not there.
  explicit AlignedBuffer(std::size_t bytes);
  void* data() override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  std::unique_ptr<void, Free> block_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Scratch of one kernel, kept between calls: a steady state allocates nothing.
class Scratch {
 public:
  /// At least `n_floats` floats; what an earlier call left there is undefined.
  float* reserve(std::int64_t n_floats);
  /// What the last `reserve` gave.
  float* data() const { return buffer_ ? static_cast<float*>(buffer_->data()) : nullptr; }
  std::size_t bytes() const { return buffer_ ? buffer_->bytes() : 0; }

 private:
  std::unique_ptr<AlignedBuffer> buffer_;
};

}  // namespace kvlab::cpu
