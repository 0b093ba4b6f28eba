// The emulated device's memory and launches.
#include "kernels/cuda_emulation/device.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <random>

#include "kernels/cuda_emulation/block.h"
#include "kernels/cuda_emulation/fiber.h"
#include "kernels/cuda_emulation/sanitizers.h"
#include "kernels/error.h"

namespace kvlab::cuda::emulation {

namespace {

Device* current_device = nullptr;

constexpr std::size_t kDeviceAlignment = 256;  // what cudaMalloc promises
constexpr std::int64_t kMaxBlockSize = 1024;
constexpr std::int64_t kMaxGridX = 0x7FFFFFFF;
constexpr std::int64_t kMaxGridYz = 65535;

/// What one block may ask for.
std::size_t max_shared_bytes(Architecture architecture) {
  return (architecture == Architecture::sm_80 ? std::size_t{163} : std::size_t{227}) << 10;
}

/// The order in which blocks run.
std::vector<std::int64_t> block_order(std::int64_t n_blocks, std::uint64_t seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n_blocks));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (seed != 0) std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  return order;
}

}  // namespace

Device::Device(DeviceOptions options)
    : options_(options), buffer_names_{"shared"}, shared_races_(options.shared_races) {
  if (current_device != nullptr) throw EmulationError("an emulated device is alive already");
  current_device = this;
}

Device::~Device() {
  for (const auto& [memory, allocation] : allocations_) free(allocation.memory);
  current_device = nullptr;
}

Device& Device::current() {
  if (current_device == nullptr) throw EmulationError("no emulated device is alive: make a Device first");
  return *current_device;
}

void Device::forget_previous_launch() {
  for (Allocation* buffer : written_before_) buffer->written_before.clear();
  written_before_.clear();
}

void* Device::allocate(std::size_t bytes, const std::string& name) {
  const auto wanted = static_cast<std::int64_t>(bytes);
  if (wanted > options_.memory_bytes - allocated_bytes_) {
    throw OutOfMemory(fmt::format("allocate ({}, {} bytes): {} of the emulated device's {} bytes are taken", name,
                                  bytes, allocated_bytes_, options_.memory_bytes));
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, kDeviceAlignment, bytes) != 0) throw std::bad_alloc();
  std::memset(memory, 0xFF, bytes);
  Allocation allocation;
  allocation.name = name;
  allocation.memory = static_cast<std::byte*>(memory);
  allocation.bytes = bytes;
  allocation.index = static_cast<std::uint32_t>(buffer_names_.size());
  buffer_names_.push_back(name);
  allocated_bytes_ += wanted;
  allocations_.emplace(allocation.memory, std::move(allocation));
  return memory;
}

void Device::release(void* memory) {
  if (memory == nullptr) return;
  const auto found = allocations_.find(static_cast<std::byte*>(memory));
  if (found == allocations_.end()) throw EmulationError("release of memory that is not allocated");
  std::erase(written_, &found->second);
  std::erase(written_before_, &found->second);
  last_found_ = nullptr;
  allocated_bytes_ -= static_cast<std::int64_t>(found->second.bytes);
  free(memory);
  allocations_.erase(found);
}

Allocation* Device::find(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  const auto holds = [at](const Allocation& a) { return at >= a.memory && at < a.memory + a.bytes; };
  if (last_found_ != nullptr && holds(*last_found_)) return last_found_;
  auto next = allocations_.upper_bound(at);
  if (next == allocations_.begin()) return nullptr;
  Allocation& candidate = std::prev(next)->second;
  if (!holds(candidate)) return nullptr;
  last_found_ = &candidate;
  return &candidate;
}

std::string Device::describe(const void* address) const {
  if (address == nullptr) return "at a null pointer";
  const auto next = allocations_.upper_bound(static_cast<const std::byte*>(address));
  if (next == allocations_.begin()) return "before every buffer";
  const Allocation& before = std::prev(next)->second;
  return fmt::format("at byte {} of {}, which has {}", static_cast<const std::byte*>(address) - before.memory,
                     before.name, before.bytes);
}

void Device::note_write(Allocation& buffer, std::size_t offset, std::size_t n) {
  if (std::find(written_.begin(), written_.end(), &buffer) == written_.end()) written_.push_back(&buffer);
  buffer.written.add(offset, n);
}

void Device::check_limits(const char* kernel, const LaunchShape& shape) const {
  const auto within = [](std::int64_t n, std::int64_t most) { return n >= 1 && n <= most; };
  if (!within(shape.block_size, kMaxBlockSize)) {
    throw EmulationError(
        fmt::format("kernel {}: block of {} threads; allowed are 1 to {}", kernel, shape.block_size, kMaxBlockSize));
  }
  if (!within(shape.n_blocks, kMaxGridX) || !within(shape.n_blocks_y, kMaxGridYz) ||
      !within(shape.n_blocks_z, kMaxGridYz)) {
    throw EmulationError(
        fmt::format("kernel {}: grid ({}, {}, {}); allowed are 1 to {} along x and 1 to {} along y and z", kernel,
                    shape.n_blocks, shape.n_blocks_y, shape.n_blocks_z, kMaxGridX, kMaxGridYz));
  }
  if (const std::size_t most = max_shared_bytes(options_.architecture); shape.shared_bytes > most) {
    throw EmulationError(
        fmt::format("kernel {}: {} bytes of shared memory; a block has at most {}", kernel, shape.shared_bytes, most));
  }
}

std::string Device::run_block(const char* kernel, const LaunchShape& shape, std::int64_t index,
                              const std::function<void()>& body) {
  static FiberPool fibers([](int thread) { Block::running().run_thread(thread); });
  return Block(*this, kernel, shape, index, body, fibers).run();
}

void Device::launch(const char* kernel, const LaunchShape& shape, const std::function<void()>& body) {
  check_limits(kernel, shape);
  if (running_) throw EmulationError(fmt::format("kernel {}: launched from inside a kernel", kernel));
  running_ = true;
  ++n_launches_;
  std::string failure;
  for (const std::int64_t index : block_order(shape.n_blocks * shape.n_blocks_y * shape.n_blocks_z, options_.seed)) {
    failure = run_block(kernel, shape, index, body);
    if (!failure.empty()) break;
  }
  running_ = false;
  acquire_order(&end_token_);
  forget_previous_launch();
  for (Allocation* buffer : written_) {
    buffer->written_before = std::move(buffer->written);
    buffer->written = {};
  }
  written_before_ = std::move(written_);
  written_ = {};
  if (!failure.empty()) throw EmulationError(failure);
}

}  // namespace kvlab::cuda::emulation
