// One device as the backend holds it: its runtime, the stream that all work goes through, and memory that is freed with
// its owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "kernels/cuda/backend/matmul_engine.h"
#include "kernels/cuda/runtime.h"

namespace kvlab::cuda {

class DeviceContext {
 public:
  DeviceContext(std::unique_ptr<Runtime> runtime, std::unique_ptr<MatmulEngine> matmuls);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  Runtime& runtime() const { return *runtime_; }
  MatmulEngine& matmuls() const { return *matmuls_; }
  CUstream_st* stream() const { return stream_; }
  std::int64_t n_multiprocessors() const { return n_multiprocessors_; }

  /// Buffers tell of themselves, so that an array may be known to be on the device already.
  void note_buffer(const void* memory, std::size_t bytes) { buffers_[static_cast<const std::byte*>(memory)] = bytes; }
  void forget_buffer(const void* memory) { buffers_.erase(static_cast<const std::byte*>(memory)); }
  bool in_buffer(const void* address) const;

  /// Times that scratch got another address: what was captured before then is stale.
  std::int64_t scratch_moves() const { return scratch_moves_; }
  void note_scratch_move() { ++scratch_moves_; }

  /// Copies and waits until the bytes are there.
  void upload(void* to, const void* from, std::size_t bytes) const;

  /// What launch(stream) puts on the stream, as a graph instead of at once.
  template <class Launch>
  std::unique_ptr<Graph> captured(const Launch& launch) const {
    runtime_->begin_capture(stream_);
    try {
      launch(stream_);
    } catch (...) {
      runtime_->abandon_capture(stream_);
      throw;
    }
    return runtime_->end_capture(stream_);
  }

 private:
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<MatmulEngine> matmuls_;
  CUstream_st* stream_;
  std::int64_t n_multiprocessors_;
  std::map<const std::byte*, std::size_t> buffers_;  // bytes by first byte
  std::int64_t scratch_moves_ = 0;
};

/// Uninitialised device memory.
class DeviceMemory {
 public:
  /// Throws OutOfMemory. `context` outlives it.
  DeviceMemory(DeviceContext& context, std::size_t bytes, const std::string& name);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  DeviceContext& context_;
  std::size_t bytes_;
  void* data_;
};

/// Memory between the launches of one operation, as large as the largest request so far. What it held is lost when it
/// grows.
class ScratchMemory {
 public:
  ScratchMemory(DeviceContext& context, std::string name) : context_(context), name_(std::move(name)) {}

  void reserve(std::size_t bytes);
  /// Good until `reserve` grows it.
  template <typename T>
  T* as() const {
    return memory_ == nullptr ? nullptr : static_cast<T*>(memory_->data());
  }

 private:
  DeviceContext& context_;
  std::string name_;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace kvlab::cuda
