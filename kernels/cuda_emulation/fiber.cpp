// Stack switching, annotated for AddressSanitizer. ThreadSanitizer is told by block.cpp, which knows when a stack acts
// for an emulated thread and when for the emulator.
#include "kernels/cuda_emulation/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/preallocated.hpp>
#include <boost/context/stack_context.hpp>
#include <new>
#include <utility>

#include "kernels/cuda_emulation/sanitizers.h"

namespace kvlab::cuda::emulation {

namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;  // a kernel's locals, and AddressSanitizer's red zones

/// The set owns the memory.
struct NoStackAllocator {
  void deallocate(boost::context::stack_context&) {}
};

boost::context::preallocated stack_at(std::byte* bottom, std::size_t bytes) {
  boost::context::stack_context context;
  context.sp = bottom + bytes;
  context.size = bytes;
  return {context.sp, bytes, context};
}

}  // namespace

Fiber::Fiber(std::byte* bottom, std::size_t stack_bytes, std::function<void()> body)
    : bottom_(bottom),
      stack_bytes_(stack_bytes),
      body_(std::move(body)),
      own_(std::allocator_arg, stack_at(bottom, stack_bytes), NoStackAllocator{},
           [this](boost::context::fiber&& caller) { return loop(std::move(caller)); }) {}

Fiber::~Fiber() {
  quit_ = true;
  resume();
}

void Fiber::resume() {
  void* saved = nullptr;
  start_stack_switch(&saved, bottom_, stack_bytes_);
  own_ = std::move(own_).resume();
  finish_stack_switch(saved, nullptr, nullptr);
}

void Fiber::suspend() {
  void* saved = nullptr;
  switch_to_caller(&saved);
  finish_stack_switch(saved, &caller_bottom_, &caller_bytes_);
}

void Fiber::switch_to_caller(void** save) {
  start_stack_switch(save, caller_bottom_, caller_bytes_);
  caller_ = std::move(caller_).resume();
}

boost::context::fiber Fiber::loop(boost::context::fiber&& caller) {
  finish_stack_switch(nullptr, &caller_bottom_, &caller_bytes_);
  caller_ = std::move(caller);
  while (!quit_) {
    body_();
    suspend();
  }
  start_stack_switch(nullptr, caller_bottom_, caller_bytes_);
  return std::move(caller_);
}

FiberPool::~FiberPool() {
  for (Group& group : groups_) {
    group.fibers.clear();
    for (const RaceThread thread : group.race_threads) destroy_race_thread(thread);
    forget_stack(group.stacks, group.bytes);
    munmap(group.stacks, group.bytes);
  }
}

Fiber& FiberPool::operator[](int i) { return *group_of(i).fibers[static_cast<std::size_t>(i % kGroup)]; }

RaceThread FiberPool::race_thread(int i) { return group_of(i).race_threads[static_cast<std::size_t>(i % kGroup)]; }

FiberPool::Group& FiberPool::group_of(int i) {
  const auto at = static_cast<std::size_t>(i / kGroup);
  while (groups_.size() <= at) add_group();
  return groups_[at];
}

void FiberPool::add_group() {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t stride = kStackBytes + page;
  Group group;
  group.bytes = stride * kGroup;
  void* memory = mmap(nullptr, group.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  group.stacks = static_cast<std::byte*>(memory);
  const int first = static_cast<int>(groups_.size()) * kGroup;
  for (int i = 0; i < kGroup; ++i) {
    std::byte* guard = group.stacks + stride * static_cast<std::size_t>(i);
    mprotect(guard, page, PROT_NONE);
    group.fibers.push_back(
        std::make_unique<Fiber>(guard + page, kStackBytes, [this, thread = first + i] { body_(thread); }));
    group.race_threads.push_back(make_race_thread());
  }
  groups_.push_back(std::move(group));
}

}  // namespace kvlab::cuda::emulation
