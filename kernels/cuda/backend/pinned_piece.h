// Pinned memory, and the event that says when the copies that use it are done.
#pragma once

#include <cstddef>
#include <exception>

#include "kernels/cuda/runtime.h"

namespace kvlab::cuda {

class PinnedPiece {
 public:
  /// Throws OutOfMemory. `runtime` outlives it.
  PinnedPiece(Runtime& runtime, std::size_t bytes)
      : runtime_(runtime),
        bytes_(bytes),
        memory_(static_cast<std::byte*>(runtime.allocate_pinned(bytes))),
        used_(runtime.make_event()) {}
  /// Waits: the device may still use the memory.
  ~PinnedPiece() {
    try {
      wait();
    } catch (const std::exception&) {
      // The device has failed, and the next call says so.
    }
    runtime_.destroy_event(used_);
    runtime_.release_pinned(memory_);
  }
  PinnedPiece(const PinnedPiece&) = delete;
  PinnedPiece& operator=(const PinnedPiece&) = delete;

  std::byte* memory() const { return memory_; }
  std::size_t bytes() const { return bytes_; }

  /// The copies that the stream was given so far are those that use the memory.
  void seal(CUstream_st* stream) {
    runtime_.record(used_, stream);
    sealed_ = true;
  }
  /// Returns when they are done.
  void wait() {
    if (sealed_) runtime_.synchronize_event(used_);
    sealed_ = false;
  }

 private:
  Runtime& runtime_;
  std::size_t bytes_;
  std::byte* memory_;  // [bytes_]
  CUevent_st* used_;
  bool sealed_ = false;
};

}  // namespace kvlab::cuda
