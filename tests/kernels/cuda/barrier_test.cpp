// Block and warp barriers of the emulator: order, and the faults that it must find in every order of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/warp_ops.cuh"
#include "kernels/cuda_emulation/device.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

using emulation::EmulationError;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kBlock = 96;

struct ReverseStorage {
  SharedArray<int, kBlock> values;
};

// Reverses a block's values through shared memory, twice.
KVLAB_KERNEL void reverse_twice_kernel(Global<const int> in, Global<int> out) {
  auto& shared = shared_storage<ReverseStorage>();
  const int thread = thread_x();
  store_shared(shared.values.at(thread), load_global(in + (block_x() * kBlock + thread)));
  block_barrier();
  const int reversed = load_shared(shared.values.at(kBlock - 1 - thread));
  block_barrier();
  store_shared(shared.values.at(thread), reversed);
  block_barrier();
  store_global(out + (block_x() * kBlock + thread), load_shared(shared.values.at(kBlock - 1 - thread)));
}

TEST(CudaEmulation, BarriersOrderSharedMemoryInEveryOrderOfThreads) {
  std::vector<int> values(3 * kBlock);
  std::iota(values.begin(), values.end(), 5);
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const emulation::Device device({.seed = seed});
    const test::DeviceArray<int> in("in", values);
    const test::DeviceArray<int> out("out", values.size());
    launch("reverse_twice", reverse_twice_kernel,
           {.n_blocks = 3, .block_size = kBlock, .shared_bytes = sizeof(ReverseStorage)}, nullptr, in.data(),
           out.data());
    EXPECT_EQ(out.values(), values) << "seed " << seed;
  }
}

// What the launch of a kernel without arguments fails with; "" when it does not.
std::string failure_of(void (*kernel)(), const LaunchShape& shape, std::uint64_t seed) {
  const emulation::Device device({.seed = seed});
  try {
    launch("planted", kernel, shape, nullptr);
  } catch (const EmulationError& error) {
    return error.what();
  }
  return "";
}

KVLAB_KERNEL void different_barriers_kernel() {
  if (thread_x() < 32) {
    block_barrier();
  } else {
    block_barrier();
  }
}

KVLAB_KERNEL void barrier_in_half_a_warp_kernel() {
  if (thread_x() < 16) warp_barrier();
  block_barrier();
}

KVLAB_KERNEL void shuffle_after_exit_kernel() {
  if (thread_x() == 7) return;
  shuffle(thread_x(), 0);
}

KVLAB_KERNEL void shuffle_outside_the_mask_kernel() {
  if (thread_x() < 16) shuffle(thread_x(), 20, kWarpSize, 0xFFFFU);
}

KVLAB_KERNEL void different_shuffles_kernel() {
  if (thread_x() % 2 == 0) {
    shuffle(thread_x(), 0);
  } else {
    shuffle(thread_x(), 0);
  }
}

TEST(CudaEmulation, FindsThreadsThatDoNotMeet) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    EXPECT_THAT(failure_of(different_barriers_kernel, {1, 64}, seed),
                AllOf(HasSubstr("kernel planted, block (0, 0, 0)"), HasSubstr("threads stand at different barriers"),
                      HasSubstr("thread 0 at line"), HasSubstr("thread 32 at line")));
    EXPECT_THAT(failure_of(barrier_in_half_a_warp_kernel, {1, 64}, seed),
                AllOf(HasSubstr("the block cannot go on: 16 thread(s), thread 0 first, wait for their warp at line"),
                      HasSubstr("48 thread(s), thread 16 first, wait for their block at line")));
    EXPECT_THAT(failure_of(shuffle_after_exit_kernel, {1, 32}, seed), HasSubstr("thread 7"));
    EXPECT_THAT(failure_of(shuffle_outside_the_mask_kernel, {1, 32}, seed),
                HasSubstr("a shuffle reads a lane outside its mask"));
    EXPECT_THAT(failure_of(different_shuffles_kernel, {1, 32}, seed), HasSubstr("meet at different operations"));
    EXPECT_THAT(failure_of(different_shuffles_kernel, {1, 16}, seed), HasSubstr("which the block does not have"));
  }
}

KVLAB_KERNEL void leave_early_kernel(Global<int> out) {
  if (thread_x() >= 32) return;  // whole warps may leave: the barrier counts those that are left
  block_barrier();
  store_global(out + thread_x(), 1);
}

TEST(CudaEmulation, ABarrierWaitsForThreadsThatAreLeft) {
  const emulation::Device device({.seed = 1});
  const test::DeviceArray<int> out("out", 32);
  launch("leave_early", leave_early_kernel, {1, 64}, nullptr, out.data());
  EXPECT_EQ(out.values(), std::vector<int>(32, 1));
}

KVLAB_KERNEL void do_nothing_kernel() {}
KVLAB_KERNEL void want_storage_kernel() { shared_storage<ReverseStorage>(); }

TEST(CudaEmulation, RefusesLaunchesBeyondTheLimits) {
  EXPECT_EQ(failure_of(do_nothing_kernel, {1, 1024}, 0), "");
  EXPECT_THAT(failure_of(do_nothing_kernel, {1, 1025}, 0), HasSubstr("block of 1025 threads; allowed are 1 to 1024"));
  EXPECT_THAT(failure_of(do_nothing_kernel, {0, 32}, 0), HasSubstr("grid (0, 1, 1)"));
  EXPECT_THAT(failure_of(do_nothing_kernel, {1, 32, 65536}, 0), HasSubstr("grid (1, 65536, 1)"));
  EXPECT_EQ(failure_of(do_nothing_kernel, {1, 32, 1, 1, 227 * 1024}, 0), "");
  EXPECT_THAT(failure_of(do_nothing_kernel, {1, 32, 1, 1, 227 * 1024 + 1}, 0),
              HasSubstr("232449 bytes of shared memory; a block has at most 232448"));
  EXPECT_THAT(failure_of(want_storage_kernel, {1, 32, 1, 1, 16}, 0),
              HasSubstr("wants 384 bytes of shared memory, and the launch gave 16"));
  const emulation::Device older({.architecture = emulation::Architecture::sm_80});
  EXPECT_THROW(launch("planted", do_nothing_kernel, {1, 32, 1, 1, 163 * 1024 + 1}, nullptr), EmulationError);
}

}  // namespace
}  // namespace kvlab::cuda
