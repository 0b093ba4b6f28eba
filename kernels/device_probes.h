// What a backend on a device lets its ceilings be measured with, by Operations::mark(). The harness makes tables of it
// (harness/device_ceilings.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvlab {

/// Launches are recorded between begin_recording and end_recording, as operations are. Memory is a buffer's; addresses
/// and sizes are multiples of 16 bytes, else InputError.
class DeviceProbes {
 public:
  virtual ~DeviceProbes() = default;

  virtual std::int64_t l2_bytes() const = 0;
  /// Device memory that nobody holds, once the work issued so far is done; waits for it.
  virtual std::int64_t free_bytes() const = 0;

  // One launch that goes over the memory `n_passes` times and does nothing else.
  virtual void read(const void* memory, std::size_t bytes, std::int64_t n_passes) = 0;
  virtual void write(void* memory, std::size_t bytes, std::int64_t n_passes) = 0;
  /// to [bytes] = from [bytes], apart.
  virtual void copy(void* to, const void* from, std::size_t bytes, std::int64_t n_passes) = 0;

  /// One launch that does nothing at all.
  virtual void nothing() = 0;
};

}  // namespace kvlab
