// The emulator's counts of coalescing and bank conflicts, against numbers worked out by hand.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda_emulation/device.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

using emulation::AccessCounts;
using Float4 = Vector<float, 4>;

// Reads of a block of 64: in order, every second word, all the same word, 16 bytes each; stores of the lower half.
KVLAB_KERNEL void access_patterns_kernel(Global<const float> in, Global<float> out) {
  const int thread = thread_x();
  float sum = load_global(in + thread);
  sum += load_global(in + 2 * thread);
  sum += load_global_constant(in);
  sum += load_global((in + 4 * thread).as<Float4>())[2];
  store_global_if(thread < 32, out + thread, sum);
}

TEST(CudaCounts, SectorsOfKnownPatterns) {
  emulation::Device device({.seed = 7});
  const test::DeviceArray<float> in("in", std::vector<float>(256, 1.0F));
  const test::DeviceArray<float> out("out", 32);
  launch("access_patterns", access_patterns_kernel, {1, 64}, nullptr, in.data(), out.data());
  std::vector<AccessCounts> loads;
  for (const auto& [site, counts] : device.log().by_site()) {
    if (site.buffer == "in") loads.push_back(counts);
  }
  // Sites are in the order of kind, then line.
  ASSERT_EQ(loads.size(), 4U);
  EXPECT_EQ(loads[0].requests, 2);
  EXPECT_EQ(loads[0].lane_bytes, 256);
  EXPECT_EQ(loads[0].sectors, 8);
  EXPECT_EQ(loads[0].least_sectors, 8);
  EXPECT_EQ(loads[0].touched_bytes, 256);
  EXPECT_EQ(loads[1].sectors, 16) << "every second word: twice the sectors";
  EXPECT_EQ(loads[1].least_sectors, 8);
  EXPECT_EQ(loads[2].sectors, 32);
  EXPECT_EQ(loads[2].least_sectors, 32);
  EXPECT_EQ(loads[2].touched_bytes, 1024);
  EXPECT_EQ(loads[3].sectors, 2) << "one word for all lanes: one sector a warp";
  EXPECT_EQ(loads[3].lane_bytes, 256);
  EXPECT_EQ(loads[3].touched_bytes, 4);
  EXPECT_EQ(device.log().reads_of("in").touched_bytes, 1024) << "bytes count once, however many sites read them";
  EXPECT_EQ(device.log().writes_of("out").requests, 1) << "the upper warp stores nothing";
  EXPECT_EQ(device.log().writes_of("out").lane_bytes, 128);
  device.log().clear();
  EXPECT_TRUE(device.log().by_site().empty());
}

struct BankStorage {
  SharedArray<float, 32 * 32> words;
};

// One warp reads: a row, a column of 32 conflicts, one word, pairs of rows of 16 bytes at a stride of 128 bytes.
template <int pattern>
KVLAB_KERNEL void bank_patterns_kernel() {
  auto& shared = shared_storage<BankStorage>();
  const int lane = lane_id();
  if constexpr (pattern == 0) load_shared(shared.words.at(lane));
  if constexpr (pattern == 1) load_shared(shared.words.at(32 * lane));
  if constexpr (pattern == 2) load_shared(shared.words.at(5));
  if constexpr (pattern == 3) load_shared(shared.words.at(4 * lane).as<Float4>());
  if constexpr (pattern == 4) load_shared(shared.words.at(32 * lane).as<Float4>());
  if constexpr (pattern == 5) load_shared_if(lane < 16, shared.words.at(2 * lane).as<Vector<float, 2>>(), {});
  if constexpr (pattern == 6) {
    std::uint32_t registers[4];
    load_matrix_x4(registers, shared.words.at(32 * lane).as<std::uint16_t>());
  }
  if constexpr (pattern == 7) {  // rows of 128 bytes, their eight 16-byte columns swizzled by the row
    std::uint32_t registers[4];
    load_matrix_x4(registers, shared.words.at(32 * lane + 4 * (lane % 8)).as<std::uint16_t>());
  }
}

AccessCounts bank_counts(void (*kernel)()) {
  emulation::Device device;
  launch("bank_patterns", kernel, {1, 32, 1, 1, sizeof(BankStorage)}, nullptr);
  return device.log().of_shared();
}

TEST(CudaCounts, WavefrontsOfKnownPatterns) {
  struct Expected {
    void (*kernel)();
    std::int64_t wavefronts;
    std::int64_t least;
  };
  const std::vector<Expected> table = {
      {bank_patterns_kernel<0>, 1, 1},   // 32 banks once
      {bank_patterns_kernel<1>, 32, 1},  // one bank 32 times
      {bank_patterns_kernel<2>, 1, 1},   // a broadcast
      {bank_patterns_kernel<3>, 4, 4},   // 512 bytes
      {bank_patterns_kernel<4>, 32, 4},  // eight lanes a phase, all on the same four banks
      {bank_patterns_kernel<5>, 1, 1},   // half a warp, 128 bytes
      {bank_patterns_kernel<6>, 32, 4},  // matrix rows 128 bytes apart
      {bank_patterns_kernel<7>, 4, 4},   // swizzled
  };
  for (std::size_t i = 0; i < table.size(); ++i) {
    const AccessCounts counts = bank_counts(table[i].kernel);
    EXPECT_EQ(counts.requests, 1) << "pattern " << i;
    EXPECT_EQ(counts.wavefronts, table[i].wavefronts) << "pattern " << i;
    EXPECT_EQ(counts.least_wavefronts, table[i].least) << "pattern " << i;
  }
}

}  // namespace
}  // namespace kvlab::cuda
