// Faults planted in a small kernel, each a real one on the device, and each found: by the emulator's own checks, or, in
// the tsan build, by ThreadSanitizer where the fault is a race.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/warp_ops.cuh"
#include "kernels/cuda_emulation/device.h"
#include "kernels/cuda_emulation/sanitizers.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

using emulation::EmulationError;
using emulation::kThreadSanitizer;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

constexpr int kThreads = 64;
constexpr int kTiles = 3;
constexpr int kTileWords = kThreads * 4;

enum class Fault {
  none,
  no_wait,             // the tile is read before its copy has arrived
  wait_short,          // the wait lets one group too many stay under way
  no_barrier,          // a thread reads what another has copied, without a barrier after the wait
  refill_too_early,    // the next copy goes into the tile that slower threads still read
  read_past_the_end,   // of device memory
  write_past_the_end,  // of device memory
  shared_overflow,     // a tile beyond the storage
  misaligned           // a 16-byte load at 4 bytes
};

struct Storage {
  SharedArray<int, 2 * kTileWords> tiles;  // [2, kTileWords]
};

KVLAB_DEVICE void start_copy(Shared<int> tile, Global<const int> in, int which, bool active) {
  using Row = Vector<int, 4>;
  if (active) {
    copy_async16(tile + 4 * thread_x(), (in + (which * kTileWords + 4 * thread_x())).as<Row>());
  }
  commit_copies();
}

// Sums over tiles, double-buffered: thread i adds word i * 4 of every tile, as the thread after it has copied it.
template <Fault fault>
KVLAB_KERNEL void sum_tiles_kernel(Global<const int> in, Global<int> out) {
  auto& shared = shared_storage<Storage>();
  const int thread = thread_x();
  int sum = 0;
  start_copy(shared.tiles.at(0), in, 0, true);
  for (int tile = 0; tile < kTiles; ++tile) {
    const int next = tile + 1;
    start_copy(shared.tiles.at(next % 2 * kTileWords), in, next, next < kTiles);
    if constexpr (fault == Fault::wait_short) {
      wait_for_copies<2>();
    } else if constexpr (fault != Fault::no_wait) {
      wait_for_copies<1>();
    }
    if constexpr (fault != Fault::no_barrier) block_barrier();
    sum += load_shared(shared.tiles.at(tile % 2 * kTileWords + (thread + 1) % kThreads * 4));
    if constexpr (fault != Fault::refill_too_early) block_barrier();
  }
  if constexpr (fault == Fault::read_past_the_end) sum += load_global(in + kTiles * kTileWords);
  if constexpr (fault == Fault::shared_overflow) store_shared(shared.tiles.at(2 * kTileWords + thread), sum);
  if constexpr (fault == Fault::misaligned) sum += load_global((in + 1).as<Vector<int, 4>>())[0];
  store_global(out + (fault == Fault::write_past_the_end ? thread + 1 : thread), sum);
}

// "" or what the launch failed with.
template <Fault fault>
std::string failure_of(std::uint64_t seed) {
  std::vector<int> in(kTiles * kTileWords);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i);
  const emulation::Device device({.seed = seed});
  const test::DeviceArray<int> source("source", in);
  const test::DeviceArray<int> sums("sums", kThreads);
  try {
    launch("sum_tiles", sum_tiles_kernel<fault>,
           {.n_blocks = 1, .block_size = kThreads, .shared_bytes = sizeof(Storage)}, nullptr, source.data(),
           sums.data());
  } catch (const EmulationError& error) {
    return error.what();
  }
  for (int thread = 0; thread < kThreads; ++thread) {
    const int word = (thread + 1) % kThreads * 4;
    EXPECT_EQ(sums.values()[static_cast<std::size_t>(thread)], 3 * word + 3 * kTileWords);
  }
  return "";
}

// The emulator's own words for a race, or the tsan build's.
auto race(const std::string& own) {
  return HasSubstr(kThreadSanitizer ? "a data race between threads, reported above by ThreadSanitizer" : own);
}

class CudaPlantedFaults : public testing::TestWithParam<std::uint64_t> {};

TEST_P(CudaPlantedFaults, TheKernelWithoutAFaultRuns) { EXPECT_EQ(failure_of<Fault::none>(GetParam()), ""); }

TEST_P(CudaPlantedFaults, AMissingWait) {
  EXPECT_THAT(failure_of<Fault::no_wait>(GetParam()),
              AllOf(HasSubstr("kernel sum_tiles, block (0, 0, 0), thread"), HasSubstr("has not been waited for")));
}

TEST_P(CudaPlantedFaults, AWaitOneGroupShort) {
  EXPECT_THAT(failure_of<Fault::wait_short>(GetParam()), HasSubstr("has not been waited for"));
}

TEST_P(CudaPlantedFaults, AMissingBarrierAfterTheWait) {
  EXPECT_THAT(failure_of<Fault::no_barrier>(GetParam()),
              AnyOf(HasSubstr("has not been waited for"), race("and no barrier lies between")));
}

TEST_P(CudaPlantedFaults, ARefillBeforeEveryoneHasRead) {
  EXPECT_THAT(failure_of<Fault::refill_too_early>(GetParam()),
              AnyOf(HasSubstr("has not been waited for"), race("and no barrier lies between")));
}

TEST_P(CudaPlantedFaults, AccessBeyondMemory) {
  EXPECT_THAT(failure_of<Fault::read_past_the_end>(GetParam()),
              HasSubstr("reads 4 bytes outside device memory, at byte 3072 of source, which has 3072"));
  EXPECT_THAT(failure_of<Fault::write_past_the_end>(GetParam()),
              HasSubstr("writes 4 bytes outside device memory, at byte 256 of sums, which has 256"));
  EXPECT_THAT(failure_of<Fault::shared_overflow>(GetParam()), HasSubstr("of shared memory, which has 2048 bytes"));
  EXPECT_THAT(failure_of<Fault::misaligned>(GetParam()), HasSubstr("at an address that is no multiple of 16"));
}

INSTANTIATE_TEST_SUITE_P(Orders, CudaPlantedFaults, testing::Values(0, 1, 2, 3));

struct WarpStorage {
  SharedArray<std::uint16_t, 2 * 256> rows;  // [2 warps, 32, 8]
};

enum class WarpFault { none, no_barrier, other_warp };

// Each warp stores its own tile and loads it as matrices; the faulty ones forget the barrier or look at the other's.
template <WarpFault fault>
KVLAB_KERNEL void warp_tiles_kernel(Global<std::uint32_t> out) {
  auto& shared = shared_storage<WarpStorage>();
  const int mine = warp_id() * 256 + lane_id() * 8;
  Vector<std::uint16_t, 8> row;
  for (int i = 0; i < 8; ++i) row[i] = static_cast<std::uint16_t>(mine + i);
  store_shared(shared.rows.at(mine).as<Vector<std::uint16_t, 8>>(), row);
  if constexpr (fault != WarpFault::no_barrier) warp_barrier();
  std::uint32_t registers[4];
  load_matrix_x4(registers, shared.rows.at(fault == WarpFault::other_warp ? (mine + 256) % 512 : mine));
  store_global(out + thread_x(), registers[3]);
}

template <WarpFault fault>
std::string warp_failure_of(std::uint64_t seed) {
  const emulation::Device device({.seed = seed});
  const test::DeviceArray<std::uint32_t> out("out", 64);
  try {
    launch("warp_tiles", warp_tiles_kernel<fault>, {.block_size = 64, .shared_bytes = sizeof(WarpStorage)}, nullptr,
           out.data());
  } catch (const EmulationError& error) {
    return error.what();
  }
  return "";
}

TEST_P(CudaPlantedFaults, RacesWithinAndBetweenWarps) {
  EXPECT_EQ(warp_failure_of<WarpFault::none>(GetParam()), "");
  EXPECT_THAT(warp_failure_of<WarpFault::no_barrier>(GetParam()), race("and no barrier lies between"));
  EXPECT_THAT(warp_failure_of<WarpFault::other_warp>(GetParam()), race("and no barrier lies between"));
}

}  // namespace
}  // namespace kvlab::cuda
