// Passes over emulated device memory: every byte once a pass, in whole sectors, and the right values.
#include "kernels/cuda/memory_passes.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda_emulation/device.h"
#include "kernels/error.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/kernels/cuda/thread_orders.h"

namespace kvlab::cuda {
namespace {

std::vector<std::uint32_t> words(std::int64_t n_chunks) {
  std::vector<std::uint32_t> values;
  for (std::int64_t i = 0; i < n_chunks * 4; ++i) values.push_back(static_cast<std::uint32_t>(i) * 2654435761U);
  return values;
}

std::uint32_t exclusive_or(const std::vector<std::uint32_t>& values) {
  std::uint32_t sum = 0;
  for (const std::uint32_t value : values) sum ^= value;
  return sum;
}

struct PassCase {
  std::int64_t n_chunks;
  std::int64_t n_passes;  // odd, so that the words of two passes do not cancel
  std::int64_t n_blocks;
};

/// Less than a warp, around a block's turn of 512 x 8 chunks, a prime, and passes that meet within one turn.
constexpr PassCase kCases[] = {{1, 1, 1},    {31, 3, 2},   {511, 1, 1},  {512, 1, 2},    {513, 3, 5}, {514, 3, 5},
                               {4095, 1, 1}, {4096, 1, 1}, {4097, 1, 2}, {12'289, 1, 5}, {769, 7, 3}, {770, 7, 3}};

class CudaMemoryPasses : public testing::TestWithParam<PassCase> {
 protected:
  /// A pass writes again what another thread wrote in the pass before: the same values, yet without order.
  static bool is_a_race() { return emulation::kThreadSanitizer && GetParam().n_passes > 1; }
  std::int64_t bytes() const { return GetParam().n_chunks * 16; }
  /// Counted bytes of all passes in least sectors, and each byte of memory touched.
  void expect_whole_passes(const emulation::AccessCounts& counts) const {
    EXPECT_EQ(counts.lane_bytes, bytes() * GetParam().n_passes);
    EXPECT_EQ(counts.touched_bytes, bytes());
    // A pass after an odd number of chunks begins in the middle of a sector; ceilings have no such sizes.
    if (GetParam().n_passes == 1 || GetParam().n_chunks % 2 == 0) {
      EXPECT_EQ(counts.sectors, counts.least_sectors);
    }
  }
};

TEST_P(CudaMemoryPasses, Read) {
  const PassCase& c = GetParam();
  emulation::Device device({.seed = 3});
  const test::DeviceArray<std::uint32_t> memory("memory", words(c.n_chunks));
  const test::DeviceArray<std::uint32_t> sums("sums", static_cast<std::size_t>(read_pass_sums(c.n_blocks)));
  launch_read_passes(memory.data(), bytes(), c.n_passes, c.n_blocks, sums.data(), nullptr);
  EXPECT_EQ(exclusive_or(sums.values()), exclusive_or(words(c.n_chunks)));
  expect_whole_passes(device.log().reads_of("memory"));
}

TEST_P(CudaMemoryPasses, Write) {
  if (is_a_race()) GTEST_SKIP() << "ThreadSanitizer does not compare the values of two writes";
  const PassCase& c = GetParam();
  emulation::Device device({.seed = 3});
  const test::DeviceArray<std::uint32_t> memory("memory", static_cast<std::size_t>(c.n_chunks * 4));
  launch_write_passes(memory.data(), bytes(), c.n_passes, c.n_blocks, 0x1234U, nullptr);
  EXPECT_EQ(memory.values(), std::vector<std::uint32_t>(static_cast<std::size_t>(c.n_chunks * 4), 0x1234U));
  expect_whole_passes(device.log().writes_of("memory"));
}

TEST_P(CudaMemoryPasses, Copy) {
  if (is_a_race()) GTEST_SKIP() << "ThreadSanitizer does not compare the values of two writes";
  const PassCase& c = GetParam();
  emulation::Device device({.seed = 3});
  const test::DeviceArray<std::uint32_t> from("from", words(c.n_chunks));
  const test::DeviceArray<std::uint32_t> to("to", static_cast<std::size_t>(c.n_chunks * 4));
  launch_copy_passes(from.data(), to.data(), bytes(), c.n_passes, c.n_blocks, nullptr);
  EXPECT_EQ(to.values(), words(c.n_chunks));
  expect_whole_passes(device.log().reads_of("from"));
  expect_whole_passes(device.log().writes_of("to"));
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, CudaMemoryPasses, testing::ValuesIn(kCases));

TEST(CudaMemoryPassOrders, NoOrderOfThreadsChangesABit) {
  constexpr std::int64_t kChunks = 514;
  constexpr std::int64_t kBytes = kChunks * 16;
  test::expect_the_same_in_every_order([] {
    const test::DeviceArray<std::uint32_t> from("from", words(kChunks));
    const test::DeviceArray<std::uint32_t> to("to", static_cast<std::size_t>(kChunks * 4));
    const test::DeviceArray<std::uint32_t> sums("sums", static_cast<std::size_t>(read_pass_sums(2)));
    launch_nothing(nullptr);
    launch_copy_passes(from.data(), to.data(), kBytes, 1, 2, nullptr);
    launch_write_passes(from.data(), kBytes, 1, 2, 7, nullptr);
    launch_read_passes(from.data(), kBytes, 3, 2, sums.data(), nullptr);
    std::vector<std::uint32_t> outputs = to.values();
    for (const auto& values : {from.values(), sums.values()})
      outputs.insert(outputs.end(), values.begin(), values.end());
    return outputs;
  });
}

TEST(CudaMemoryPassEdges, HalfAChunkAndNoBlockAreRefused) {
  emulation::Device device;
  const test::DeviceArray<std::uint32_t> memory("memory", std::vector<std::uint32_t>(12, 0));
  std::uint32_t* words_of = memory.data();
  EXPECT_THROW(launch_read_passes(words_of, 24, 1, 1, words_of, nullptr), InputError);
  EXPECT_THROW(launch_read_passes(words_of + 1, 16, 1, 1, words_of, nullptr), InputError);
  EXPECT_THROW(launch_read_passes(words_of, 0, 1, 1, words_of, nullptr), InputError);
  EXPECT_THROW(launch_write_passes(words_of, 16, 1, 0, 0, nullptr), InputError);
  EXPECT_THROW(launch_copy_passes(words_of, words_of + 5, 16, 1, 1, nullptr), InputError);
  EXPECT_THROW(launch_copy_passes(words_of, words_of + 4, 16, 0, 1, nullptr), InputError);
  EXPECT_EQ(device.n_launches(), 0);
  launch_nothing(nullptr);
  EXPECT_EQ(device.n_launches(), 1);
}

}  // namespace
}  // namespace kvlab::cuda
