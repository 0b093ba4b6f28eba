// One block of threads under way: who runs, who waits for whom, and what they share. Threads give way only at barriers
// and warp operations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/device.h"
#include "kernels/cuda_emulation/fiber.h"
#include "kernels/cuda_emulation/hooks.h"
#include "kernels/cuda_emulation/sanitizers.h"

namespace kvlab::cuda::emulation {

/// A kernel did what it must not. Thrown and caught inside the emulator; becomes an EmulationError.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Takes a thread of a failed block off its stack.
struct Unwind {};

constexpr int kWarpSize = 32;
constexpr std::uint32_t kWholeWarp = 0xFFFFFFFFU;

/// Copies of one thread.
struct CopyQueue {
  std::vector<AsyncCopy> issued;        // oldest first
  std::size_t n_taken = 0;              // of `issued`: have been waited for
  std::vector<std::size_t> group_ends;  // of committed groups, oldest first: behind their last copy
};

/// One thread of the block.
struct Lane {
  enum class State { ready, at_barrier, in_warp, done };
  int thread = 0;
  State state = State::ready;
  int line = 0;  // where it waits
  Fiber* fiber = nullptr;
  RaceThread race_thread{};
  CopyQueue copies;
  bool waited_for_previous = false;

  int in_warp() const { return thread % kWarpSize; }
  int warp() const { return thread / kWarpSize; }
};

/// A block's shared memory: exact to the byte, 0xFF until written.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  std::byte* begin() const { return memory_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_;
};

enum class MeetingKind { barrier, shuffle, ballot, reduce, exchange, multiply };

class Block {
 public:
  Block(Device& device, const char* kernel, const LaunchShape& shape, std::int64_t index,
        const std::function<void()>& body, FiberPool& fibers);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Runs all threads to their end. Returns "" or what went wrong.
  std::string run();
  /// What fiber `thread` executes.
  void run_thread(int thread);

  /// The lane that runs now, and its block; throws when no kernel is under way.
  static Block& running() {
    if (running_ == nullptr || running_->running_thread_ < 0) throw_outside_launch();
    return *running_;
  }
  Lane& lane() { return lanes_[static_cast<std::size_t>(running_thread_)]; }

  void wait_at_barrier(int line);

  /// One rendezvous of the lanes `lanes` of the running lane's warp: `combine` runs once, when the last has come, with
  /// the operands of all, and may write to them. All must come from the same line with the same `parameter`.
  using Combine = void (*)(void* const (&operands)[kWarpSize], std::uint32_t lanes, int parameter);
  void meet_warp(MeetingKind kind, std::uint32_t lanes, int parameter, void* operand, Combine combine, int line);

  /// Fails when the access of shared memory races with another.
  void note_shared(SharedRaces::Use use, int thread, const void* address, int bytes, int line);
  void check_access(AccessKind kind, const void* address, int bytes, bool active, int line);

  /// Runs `work` as the emulator, not as the emulated thread; a Fault ends the block.
  template <typename Work>
  static void as_emulator(const Work& work) {
    Block& block = running();
    const RaceThread mine = block.lane().race_thread;
    enter_race_thread(block.emulator_thread_);
    try {
      work(block);
    } catch (const Fault& fault) {
      block.fail(fault.what());
    }
    block.fail_on_race();
    enter_race_thread(mine);
    if (block.unwinding_) throw Unwind{};
  }

  const LaunchShape& shape() const { return shape_; }
  std::byte* shared() const { return shared_.begin(); }
  std::int64_t x() const { return x_; }
  std::int64_t y() const { return y_; }
  std::int64_t z() const { return z_; }

 private:
  struct Meeting {
    MeetingKind kind;
    std::uint32_t lanes;
    int parameter;
    int line;
    std::uint32_t arrived = 0;
    void* operands[kWarpSize] = {};
    char* token = nullptr;  // of a barrier's order
  };

  [[noreturn]] static void throw_outside_launch();

  /// Ends the block after ThreadSanitizer's first report: more of them would say the same.
  void fail_on_race() {
    if (kThreadSanitizer && n_race_reports() != n_races_before_) {
      fail("a data race between threads, reported above by ThreadSanitizer");
    }
  }
  void give_way() { lane().fiber->suspend(); }
  void fail(const std::string& what);
  void make_ready(Lane& lane);
  int take_ready();
  void complete_barrier();
  void leave(Lane& lane);
  Meeting& join_meeting(MeetingKind kind, std::uint32_t lanes, int parameter, int line);
  void complete_meeting(const Meeting& meeting, Combine combine);
  void check_present(std::uint32_t lanes, int line);
  void order_before(char* token);
  void order_after(char* token);
  void check_shared(AccessKind kind, const void* address, int bytes, int line);
  /// Returns the buffer that holds the address.
  const Allocation& check_global(AccessKind kind, const void* address, int bytes, int line);
  std::string who_waits() const;

  static inline Block* running_ = nullptr;

  Device& device_;
  const char* kernel_;
  const LaunchShape& shape_;
  const std::function<void()>& body_;
  std::int64_t x_, y_, z_;
  SharedMemory shared_;

  std::vector<Lane> lanes_;
  std::deque<int> ready_;
  std::mt19937_64 order_;
  int running_thread_ = -1;
  int n_alive_ = 0;
  int n_at_barrier_ = 0;
  std::vector<std::vector<Meeting>> meetings_;  // per warp, not complete yet
  std::vector<std::uint32_t> present_;          // per warp: lanes that have not ended
  BlockAccesses accesses_;

  long n_races_before_ = n_race_reports();
  bool unwinding_ = false;
  std::string failure_;

  RaceThread emulator_thread_{};
  // Tokens alternate: a thread that runs ahead to the next barrier must not lend its order to those still at this one.
  char barrier_tokens_[2] = {};
  int n_barriers_ = 0;
  std::vector<std::array<char, 8>> warp_tokens_;  // per warp
  std::vector<std::size_t> n_warp_barriers_;
};

}  // namespace kvlab::cuda::emulation
