// The emulated device: its memory, its limits, and launches, which run to their end before they return. While a Device
// lives, kernels that are launched on the host run on it. Used by one host thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/launch_shape.h"
#include "kernels/cuda_emulation/access_log.h"
#include "kernels/cuda_emulation/byte_set.h"
#include "kernels/cuda_emulation/sanitizers.h"
#include "kernels/cuda_emulation/shared_races.h"

namespace kvlab::cuda::emulation {

/// What the emulator found wrong with a kernel or its launch. The message names kernel, block, thread and line.
class EmulationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Architecture { sm_80, sm_90 };

struct DeviceOptions {
  Architecture architecture = Architecture::sm_90;
  std::uint64_t seed = 0;  // of the order of blocks and of threads; 0: ascending
  bool counts = true;      // keep the log of accesses
  std::int64_t memory_bytes = std::numeric_limits<std::int64_t>::max();
  /// Look for races in shared memory; off where ThreadSanitizer does, so that its build proves what it finds.
  bool shared_races = !kThreadSanitizer;
};

/// One allocation of device memory: exact to the byte, 0xFF (NaN) until written.
struct Allocation {
  std::string name;
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  std::uint32_t index = 0;  // among all that the device ever made
  ByteSet written;          // by the launch under way
  ByteSet written_before;   // by the launch before it
};

class Block;

class Device {
 public:
  explicit Device(DeviceOptions options = {});
  ~Device();  // releases what is still allocated
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// The living device; throws EmulationError when there is none.
  static Device& current();

  const DeviceOptions& options() const { return options_; }
  void set_seed(std::uint64_t seed) { options_.seed = seed; }

  /// 256-byte aligned. `name` is what counts and errors call it. Throws OutOfMemory beyond options().memory_bytes.
  void* allocate(std::size_t bytes, const std::string& name);
  void release(void* memory);

  /// Runs `body` once for every thread. Throws EmulationError when the launch is beyond the device's limits or the
  /// kernel does what it must not; memory is then as the kernel left it.
  void launch(const char* kernel, const LaunchShape& shape, const std::function<void()>& body);

  /// The host has waited: nothing of an earlier launch is under way, so the next has nothing to wait for.
  void forget_previous_launch();

  /// What the launches since the last clear() accessed.
  AccessLog& log() { return log_; }
  std::int64_t n_launches() const { return n_launches_; }
  /// Of memory that is not released.
  std::int64_t allocated_bytes() const { return allocated_bytes_; }
  /// Allocations ever made.
  std::int64_t n_allocations() const { return static_cast<std::int64_t>(buffer_names_.size()) - 1; }

  /// The allocation that holds the address, or null.
  Allocation* find(const void* address);

 private:
  friend class Block;
  void check_limits(const char* kernel, const LaunchShape& shape) const;
  std::string run_block(const char* kernel, const LaunchShape& shape, std::int64_t index,
                        const std::function<void()>& body);
  void note_write(Allocation& buffer, std::size_t offset, std::size_t n);
  /// Where an address lies that no allocation holds, for a message.
  std::string describe(const void* address) const;

  DeviceOptions options_;
  std::map<const std::byte*, Allocation> allocations_;  // by first byte
  Allocation* last_found_ = nullptr;
  std::vector<std::string> buffer_names_;    // by index; [0] is shared memory
  std::vector<Allocation*> written_;         // by the launch under way
  std::vector<Allocation*> written_before_;  // by the launch before it
  AccessLog log_;
  SharedRaces shared_races_;
  std::int64_t n_launches_ = 0;
  std::int64_t allocated_bytes_ = 0;
  bool running_ = false;
  char start_token_ = 0;  // orders what the host did before a launch's threads
  char end_token_ = 0;    // ... and these before what it does next
};

}  // namespace kvlab::cuda::emulation
