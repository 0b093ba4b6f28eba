// Fibers of one block, with their stacks: they run until they give way. Knows nothing of kernels.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda_emulation/sanitizers.h"

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

/// The fibers of a block's threads, which blocks use one after another. They live in groups on neighbouring stacks,
/// each with a guard page below, and are made when first needed.
class FiberPool {
 public:
  /// body(i) is what fiber i runs.
  explicit FiberPool(std::function<void(int)> body) : body_(std::move(body)) {}
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  Fiber& operator[](int i);
  /// What ThreadSanitizer knows fiber i as. A stack and its thread stay together: it remembers who used a stack.
  RaceThread race_thread(int i);

 private:
  static constexpr int kGroup = 32;
  struct Group {
    std::byte* stacks;
    std::size_t bytes;
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<RaceThread> race_threads;
  };
  Group& group_of(int i);
  void add_group();

  std::function<void(int)> body_;
  std::vector<Group> groups_;
};

}  // namespace kvlab::cuda::emulation
