// Scheduling of a block's threads, its barriers and warp rendezvous. The checks of accesses are in block_access.cpp.
#include "kernels/cuda_emulation/block.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace kvlab::cuda::emulation {

namespace {

constexpr std::size_t kSharedAlignment = 256;

std::uint32_t bit(const Lane& lane) { return std::uint32_t{1} << lane.in_warp(); }

}  // namespace

// ThreadSanitizer must forget the block before. It does so for a fresh mapping, while free() would want to see every
// thread ordered before it; AddressSanitizer wants an allocation that ends at the byte.
SharedMemory::SharedMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  if (kThreadSanitizer) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
  } else if (posix_memalign(&memory, kSharedAlignment, bytes) != 0) {
    throw std::bad_alloc();
  }
  std::memset(memory, 0xFF, bytes);
  memory_ = static_cast<std::byte*>(memory);
}

SharedMemory::~SharedMemory() {
  if (memory_ == nullptr) return;
  if (kThreadSanitizer) {
    munmap(memory_, bytes_);
  } else {
    free(memory_);
  }
}

Block::Block(Device& device, const char* kernel, const LaunchShape& shape, std::int64_t index,
             const std::function<void()>& body, FiberPool& fibers)
    : device_(device),
      kernel_(kernel),
      shape_(shape),
      body_(body),
      x_(index % shape.n_blocks),
      y_(index / shape.n_blocks % shape.n_blocks_y),
      z_(index / shape.n_blocks / shape.n_blocks_y),
      shared_(shape.shared_bytes),
      lanes_(static_cast<std::size_t>(shape.block_size)),
      order_(device.options().seed + static_cast<std::uint64_t>(index)),
      n_alive_(static_cast<int>(shape.block_size)),
      accesses_(static_cast<int>(shape.block_size)),
      emulator_thread_(current_race_thread()) {
  const auto n_warps = static_cast<std::size_t>((shape.block_size + kWarpSize - 1) / kWarpSize);
  meetings_.resize(n_warps);
  present_.resize(n_warps);
  warp_tokens_.resize(n_warps);
  n_warp_barriers_.resize(n_warps);
  for (int thread = 0; thread < n_alive_; ++thread) {
    Lane& lane = lanes_[static_cast<std::size_t>(thread)];
    lane.thread = thread;
    lane.fiber = &fibers[thread];
    lane.race_thread = fibers.race_thread(thread);
    present_[static_cast<std::size_t>(lane.warp())] |= bit(lane);
    ready_.push_back(thread);
  }
  device_.shared_races_.begin_block(shape.shared_bytes, static_cast<int>(shape.block_size));
  release_order(&device_.start_token_);
  running_ = this;
}

Block::~Block() { running_ = nullptr; }

void Block::throw_outside_launch() { throw EmulationError("a device function was called outside a launch"); }

std::string Block::run() {
  while (n_alive_ > 0) {
    if (ready_.empty()) fail("the block cannot go on: " + who_waits());
    running_thread_ = take_ready();
    lane().fiber->resume();
    running_thread_ = -1;
  }
  const auto waited = [](const Lane& lane) { return lane.waited_for_previous; };
  if (shape_.overlaps_previous && std::none_of(lanes_.begin(), lanes_.end(), waited)) {
    fail("ends without wait_for_previous_launch, so the launch after it has no order with the one before");
  }
  fail_on_race();
  if (failure_.empty() && device_.options().counts) {
    device_.log_.add_block(kernel_, accesses_, device_.buffer_names_);
  }
  return failure_;
}

void Block::run_thread(int thread) {
  Lane& me = lanes_[static_cast<std::size_t>(thread)];
  if (!unwinding_) {
    bool threw = false;
    enter_race_thread(me.race_thread);
    acquire_order(&device_.start_token_);
    try {
      body_();
    } catch (const Unwind&) {
    } catch (...) {
      threw = true;
    }
    release_order(&device_.end_token_);
    enter_race_thread(emulator_thread_);
    if (threw) fail("the kernel's body threw an exception");
  }
  leave(me);
}

void Block::leave(Lane& me) {
  me.state = Lane::State::done;
  present_[static_cast<std::size_t>(me.warp())] &= ~bit(me);
  --n_alive_;
  if (unwinding_) return;
  for (const Meeting& meeting : meetings_[static_cast<std::size_t>(me.warp())]) {
    if ((meeting.lanes & bit(me)) != 0) {
      fail(fmt::format("ended while its warp waits for it at line {}", meeting.line));
      return;
    }
  }
  if (n_alive_ > 0 && n_at_barrier_ == n_alive_) complete_barrier();
}

void Block::fail(const std::string& what) {
  if (unwinding_) return;
  const std::string thread = running_thread_ < 0 ? "" : fmt::format(", thread {}", running_thread_);
  failure_ = fmt::format("kernel {}, block ({}, {}, {}){}: {}", kernel_, x_, y_, z_, thread, what);
  unwinding_ = true;
  for (Lane& lane : lanes_) {
    if (lane.state == Lane::State::at_barrier || lane.state == Lane::State::in_warp) make_ready(lane);
  }
  // The running lane unwinds by itself.
  std::erase(ready_, running_thread_);
}

void Block::make_ready(Lane& lane) {
  lane.state = Lane::State::ready;
  ready_.push_back(lane.thread);
}

int Block::take_ready() {
  if (device_.options().seed != 0) std::swap(ready_.front(), ready_[order_() % ready_.size()]);
  const int thread = ready_.front();
  ready_.pop_front();
  return thread;
}

void Block::order_before(char* token) {
  enter_race_thread(lane().race_thread);
  release_order(token);
  enter_race_thread(emulator_thread_);
}

void Block::order_after(char* token) {
  enter_race_thread(lane().race_thread);
  acquire_order(token);
  enter_race_thread(emulator_thread_);
}

void Block::wait_at_barrier(int line) {
  Lane& me = lane();
  char* token = &barrier_tokens_[n_barriers_ % 2];
  order_before(token);
  me.state = Lane::State::at_barrier;
  me.line = line;
  if (++n_at_barrier_ == n_alive_) complete_barrier();
  if (!unwinding_) give_way();
  if (!unwinding_) order_after(token);
}

void Block::complete_barrier() {
  const Lane* first = nullptr;
  bool waited = false;
  for (const Lane& lane : lanes_) {
    if (lane.state != Lane::State::at_barrier) continue;
    if (first == nullptr) first = &lane;
    if (lane.line != first->line) {
      fail(fmt::format("threads stand at different barriers: thread {} at line {}, thread {} at line {}", first->thread,
                       first->line, lane.thread, lane.line));
      return;
    }
    waited = waited || lane.waited_for_previous;
  }
  for (Lane& lane : lanes_) {
    if (lane.state != Lane::State::at_barrier) continue;
    lane.waited_for_previous = waited;
    make_ready(lane);
  }
  n_at_barrier_ = 0;
  ++n_barriers_;
  device_.shared_races_.pass_block_barrier();
}

void Block::check_present(std::uint32_t lanes, int line) {
  const Lane& me = lane();
  if ((lanes & bit(me)) == 0) throw Fault(fmt::format("line {}: the lane is not in its own mask {:#x}", line, lanes));
  const std::uint32_t absent = lanes & ~present_[static_cast<std::size_t>(me.warp())];
  if (absent == 0) return;
  const int first = std::countr_zero(absent);
  const int thread = me.warp() * kWarpSize + first;
  if (thread >= shape_.block_size) {
    throw Fault(fmt::format("line {}: waits for lane {} of its warp, which the block does not have", line, first));
  }
  throw Fault(fmt::format("line {}: waits for thread {}, which has ended", line, thread));
}

Block::Meeting& Block::join_meeting(MeetingKind kind, std::uint32_t lanes, int parameter, int line) {
  const Lane& me = lane();
  auto& meetings = meetings_[static_cast<std::size_t>(me.warp())];
  for (Meeting& meeting : meetings) {
    if (meeting.lanes != lanes) continue;
    if (meeting.kind != kind || meeting.line != line || meeting.parameter != parameter) {
      throw Fault(fmt::format("threads of one warp meet at different operations: lines {} and {}", meeting.line, line));
    }
    return meeting;
  }
  meetings.push_back({kind, lanes, parameter, line});
  if (kind == MeetingKind::barrier) {
    auto& tokens = warp_tokens_[static_cast<std::size_t>(me.warp())];
    meetings.back().token = &tokens[n_warp_barriers_[static_cast<std::size_t>(me.warp())]++ % tokens.size()];
  }
  return meetings.back();
}

void Block::meet_warp(MeetingKind kind, std::uint32_t lanes, int parameter, void* operand, Combine combine, int line) {
  check_present(lanes, line);
  Lane& me = lane();
  Meeting& meeting = join_meeting(kind, lanes, parameter, line);
  char* token = meeting.token;
  if (token != nullptr) order_before(token);
  meeting.operands[me.in_warp()] = operand;
  meeting.arrived |= bit(me);
  me.state = Lane::State::in_warp;
  me.line = line;
  if (meeting.arrived == meeting.lanes) complete_meeting(meeting, combine);
  give_way();
  if (token != nullptr && !unwinding_) order_after(token);
}

void Block::complete_meeting(const Meeting& meeting, Combine combine) {
  if (combine != nullptr) combine(meeting.operands, meeting.lanes, meeting.parameter);
  const int first = lane().warp() * kWarpSize;
  bool waited = false;
  for (int i = 0; i < kWarpSize; ++i) {
    if ((meeting.lanes >> i & 1U) == 0) continue;
    Lane& other = lanes_[static_cast<std::size_t>(first + i)];
    waited = waited || other.waited_for_previous;
    make_ready(other);
  }
  if (meeting.kind == MeetingKind::barrier) {
    device_.shared_races_.pass_warp_barrier(lane().warp(), meeting.lanes);
    for (int i = 0; i < kWarpSize; ++i) {
      if ((meeting.lanes >> i & 1U) != 0) lanes_[static_cast<std::size_t>(first + i)].waited_for_previous = waited;
    }
  }
  auto& meetings = meetings_[static_cast<std::size_t>(lane().warp())];
  meetings.erase(meetings.begin() + (&meeting - meetings.data()));
}

std::string Block::who_waits() const {
  std::string text;
  for (const Lane& lane : lanes_) {
    const bool at_barrier = lane.state == Lane::State::at_barrier;
    if (!at_barrier && lane.state != Lane::State::in_warp) continue;
    const auto same = [&](const Lane& other) { return other.state == lane.state && other.line == lane.line; };
    if (std::any_of(lanes_.data(), &lane, same)) continue;  // said already
    const auto n = std::count_if(lanes_.begin(), lanes_.end(), same);
    text += fmt::format("{}{} thread(s), thread {} first, wait for their {} at line {}", text.empty() ? "" : "; ", n,
                        lane.thread, at_barrier ? "block" : "warp", lane.line);
  }
  return text;
}

}  // namespace kvlab::cuda::emulation
