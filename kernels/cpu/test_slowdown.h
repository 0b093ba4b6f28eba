// A deliberate slowdown of one kernel, to test that a comparison of two builds finds it: off unless the build was
// configured with -DKVLAB_TEST_SLOWDOWN=matmul or =attention, which every report of such a build shows in its flags.
#pragma once

#include <chrono>
#include <string_view>

namespace kvlab::cpu {

inline constexpr std::string_view kSlowedKernel = KVLAB_TEST_SLOWDOWN;  // "": none

/// Stands at the head of a kernel's call; holds it up, when it ends, for a tenth of the time it took.
template <bool kSlowed>
class TestSlowdown {};

template <>
class TestSlowdown<true> {
 public:
  TestSlowdown() : start_(Clock::now()) {}
  ~TestSlowdown() {
    const Clock::time_point end = Clock::now();
    while (Clock::now() - end < (end - start_) / 10) {
    }
  }
  TestSlowdown(const TestSlowdown&) = delete;
  TestSlowdown& operator=(const TestSlowdown&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
};

}  // namespace kvlab::cpu
