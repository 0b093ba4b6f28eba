// Passes over memory by all threads of a run: read, write, copy. The bandwidth ceilings come from these.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

namespace kvlab {

/// Seconds of the fastest `pass` of those that fit `budget_s` (three at least), after a warm-up: other programs can
/// only slow one down.
template <typename Pass>
double fastest_seconds(double budget_s, Pass pass) {
  using Clock = std::chrono::steady_clock;
  constexpr int kLeastPasses = 3;
  pass();
  double fastest_s = std::numeric_limits<double>::infinity();
  int n_passes = 0;
  const auto begin = Clock::now();
  while (n_passes < kLeastPasses || std::chrono::duration<double>(Clock::now() - begin).count() < budget_s) {
    const auto start = Clock::now();
    pass();
    fastest_s = std::min(fastest_s, std::chrono::duration<double>(Clock::now() - start).count());
    ++n_passes;
  }
  return fastest_s;
}

struct StreamRates {
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
  double copy_bytes_per_s = 0;  // bytes read + bytes written
};

/// A working set whose pages each thread touched first where it uses them. Writing is what memset does, copying what
/// memcpy does; both may go round the caches where the set is large.
class MemoryStreams {
 public:
  static constexpr std::int64_t kLeastBytesAThread = 4096;

  /// `threads` * kLeastBytesAThread at least, rounded down to whole cache lines a thread. Throws std::bad_alloc.
  MemoryStreams(std::int64_t working_set_bytes, int threads);

  std::int64_t working_set_bytes() const { return bytes_a_thread_ * threads_; }
  /// Takes about `budget_s` seconds. Reading and writing go over the whole set; a copy from one half of it to the
  /// other. A small set is gone over again and again within one parallel region, so that starting the threads does not
  /// count.
  StreamRates measure(double budget_s);

 private:
  struct Freed {
    void operator()(std::uint64_t* words) const;
  };

  template <typename Part>
  double seconds_of_a_pass(double budget_s, Part part);

  std::int64_t bytes_a_thread_;
  int threads_;
  std::int64_t repeats_;                           // of a pass in one region
  std::unique_ptr<std::uint64_t[], Freed> words_;  // [threads, bytes_a_thread / 8]
};

}  // namespace kvlab
