// Single numbers about a device: one rate of memory, one of products, one time of launches. Which of them are wanted is
// device_ceilings.h's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "harness/device_ceilings.h"
#include "kernels/operations.h"

namespace kvlab {

/// Device seconds of the fastest `pass`, after one that does not count; 0 without a clock, where one runs.
double fastest_device_s(Operations& ops, int n_passes, const std::function<void()>& pass);

/// What `issue` issues, as a graph that has run once.
std::unique_ptr<RecordedGraph> recorded(Operations& ops, const std::function<void()>& issue);

/// amount / seconds, or 0 for what was not timed.
inline double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

/// Memory several times as large as L2, whose parts are working sets.
class DeviceArena {
 public:
  DeviceArena(Operations& ops, const DeviceLimits& limits);

  std::int64_t bytes() const { return static_cast<std::int64_t>(memory_->bytes()); }
  /// Of a set that L2 holds, if it can: a launch goes over it again and again.
  StreamRates warm(std::int64_t set_bytes) const;
  /// Of sets that L2 has lost: a graph of a launch for each of the arena's parts.
  StreamRates cold(std::int64_t set_bytes) const;

 private:
  /// Passes over `set_bytes` bytes from `first` on; a copy goes from one half of them to the other.
  void read(std::int64_t first, std::int64_t set_bytes, std::int64_t n_passes) const;
  void write(std::int64_t first, std::int64_t set_bytes, std::int64_t n_passes) const;
  void copy(std::int64_t first, std::int64_t set_bytes, std::int64_t n_passes) const;

  Operations& ops_;
  DeviceProbes& probes_;
  DeviceLimits limits_;
  std::unique_ptr<Buffer> memory_;
};

/// Bytes of the largest working set: 8 times L2 and limits.most_bytes at least, as far as a quarter of the free memory
/// allows.
std::int64_t arena_bytes(const DeviceProbes& device, const DeviceLimits& limits);

/// The largest side, halved from `side`, at which four f32 squares are half of the free memory at most.
std::int64_t side_that_fits(const DeviceProbes& device, std::int64_t side);

/// Products of drawn rows with a ring of drawn square weights.
class DeviceProducts {
 public:
  /// As many weights as are three times L2 together, or one.
  enum class Weights { one, beyond_l2 };
  DeviceProducts(Operations& ops, DType dtype, std::int64_t side, std::int64_t most_rows, Weights weights);

  /// A graph of `n_products` at least, each weight in its turn.
  ProductRow measure(std::int64_t n_rows, int n_products, int n_passes);

 private:
  Operations& ops_;
  DType dtype_;
  std::int64_t side_;
  std::vector<std::unique_ptr<PackedMatrix>> weights_;  // each [side, side]
  std::unique_ptr<Buffer> x_;                           // [most_rows, side] f32
  std::unique_ptr<Buffer> y_;                           // [most_rows, side] f32
};

LaunchTimes measure_launches(Operations& ops, const DeviceLimits& limits);

}  // namespace kvlab
