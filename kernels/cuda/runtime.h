// What the backend asks of a CUDA runtime: memory, streams, events, graphs. Includes no CUDA header. The device's is
// made by make_device_runtime (device_runtime.cpp, built where a toolkit is); kernels/cuda_emulation has a twin for
// tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/transfers.h"

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t
struct CUevent_st;   // *CUevent_st is CUDA's cudaEvent_t

namespace kvlab::cuda {

/// Recorded work, its kernels' arguments held by value, to be launched again and again.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(CUstream_st* stream) = 0;
};

/// One device, used by one thread. Work is done in the order of its stream; null is the default stream. Every failure
/// throws std::runtime_error and names the call and the kernel that was launched last, but for what destructors call
/// (release, destroy, abandon): a device that failed has said so already, or fails the next call, and the first error
/// is the one to keep.
class Runtime {
 public:
  virtual ~Runtime() = default;

  /// 256-byte aligned, uninitialised. `name` is what errors and counts call it. Throws OutOfMemory when it is not
  /// there.
  virtual void* allocate(std::size_t bytes, const std::string& name, CUstream_st* stream) = 0;
  virtual void release(void* memory, CUstream_st* stream) noexcept = 0;

  /// Host memory that copies need not stage, so that they return before they are done. Throws OutOfMemory.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(void* memory) noexcept = 0;

  virtual void copy_to_device(void* to, const void* from, std::size_t bytes, CUstream_st* stream) = 0;
  /// The bytes are there after synchronize(), of the stream or of an event recorded after it.
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes, CUstream_st* stream) = 0;
  virtual void fill(void* to, std::uint8_t byte, std::size_t bytes, CUstream_st* stream) = 0;
  /// What the copies of this interface have moved.
  virtual Transfers transfers() const = 0;

  virtual std::int64_t n_multiprocessors() const = 0;
  virtual std::int64_t l2_bytes() const = 0;
  /// Device memory that nobody holds, once the work issued so far is done; waits for it.
  virtual std::int64_t free_bytes() const = 0;

  virtual CUstream_st* make_stream() = 0;
  virtual void destroy_stream(CUstream_st* stream) noexcept = 0;
  /// Returns when the stream's work is done.
  virtual void synchronize(CUstream_st* stream) = 0;

  virtual CUevent_st* make_event() = 0;
  virtual void destroy_event(CUevent_st* event) noexcept = 0;
  virtual void record(CUevent_st* event, CUstream_st* stream) = 0;
  /// Returns when what the event recorded is done.
  virtual void synchronize_event(CUevent_st* event) = 0;
  /// Later work of the stream starts after what the event recorded.
  virtual void wait(CUstream_st* stream, CUevent_st* event) = 0;
  /// Seconds between two recorded events that have passed; nothing where the runtime has no clock.
  virtual std::optional<double> elapsed_s(CUevent_st* from, CUevent_st* to) = 0;

  /// From here to end_capture, work of the stream (not the default one) is recorded instead of done.
  virtual void begin_capture(CUstream_st* stream) = 0;
  virtual std::unique_ptr<Graph> end_capture(CUstream_st* stream) = 0;
  /// Ends a capture that went wrong, and drops what it has.
  virtual void abandon_capture(CUstream_st* stream) noexcept = 0;

  /// Waits for all work of the device, then has an attached profiler begin or end its record.
  virtual void start_profiler() = 0;
  virtual void stop_profiler() = 0;
};

/// Why there is no device to use, or "" when there is one.
std::string device_obstacle();
/// The first device in words. Throws std::runtime_error when there is none.
std::string device_description();
/// The first device. Throws std::runtime_error with device_obstacle().
std::unique_ptr<Runtime> make_device_runtime();

}  // namespace kvlab::cuda
