// Fibers of one block, with their stacks: they run until they give way. Knows nothing of kernels.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace kvlab::cuda::emulation {

/// One stack that runs `body` again and again, each time it is started. Driven by one thread: resume() from outside,
/// suspend() from inside the body.
class Fiber {
 public:
  /// `bottom`: lowest address of the stack. The body must not throw.
  Fiber(std::byte* bottom, std::size_t stack_bytes, std::function<void()> body);
  ~Fiber();  // the body must not be under way
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs until the body suspends or ends. Starts the body when it is not under way.
  void resume();
  /// Gives way to whoever resumed.
  void suspend();

 private:
  boost::context::fiber loop(boost::context::fiber&& caller);
  void switch_to_caller(void** save);

  std::byte* bottom_;
  std::size_t stack_bytes_;
  std::function<void()> body_;
  bool quit_ = false;
  const void* caller_bottom_ = nullptr;  // the resumer's stack, which AddressSanitizer wants to know
  std::size_t caller_bytes_ = 0;
  boost::context::fiber caller_;
  boost::context::fiber own_;  // last: starting it uses the members above
};

/// `n` fibers on neighbouring stacks, each with a guard page below.
class FiberSet {
 public:
  /// body(i) is what fiber i runs.
  FiberSet(int n, const std::function<void(int)>& body);
  ~FiberSet();
  FiberSet(const FiberSet&) = delete;
  FiberSet& operator=(const FiberSet&) = delete;

  int size() const { return static_cast<int>(fibers_.size()); }
  Fiber& operator[](int i) { return *fibers_[static_cast<std::size_t>(i)]; }

 private:
  std::byte* stacks_;
  std::size_t bytes_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
};

}  // namespace kvlab::cuda::emulation
