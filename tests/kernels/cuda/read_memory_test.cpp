// The reader of memory on the emulated device: every byte once, in whole sectors.
#include "kernels/cuda/read_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda_emulation/device.h"
#include "kernels/error.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

TEST(CudaReadMemory, TouchesEveryByteOnceWhateverTheGrid) {
  for (const std::int64_t n_chunks : {1, 511, 512, 513, 4095, 4096, 4097, 12'289}) {
    for (const std::int64_t n_blocks : {1, 2, 5}) {
      SCOPED_TRACE(testing::Message() << n_chunks << " x 16 bytes, " << n_blocks << " blocks");
      emulation::Device device({.seed = static_cast<std::uint64_t>(n_blocks)});
      std::vector<std::uint32_t> words;
      std::uint32_t expected = 0;
      for (std::int64_t i = 0; i < n_chunks * 4; ++i) {
        words.push_back(static_cast<std::uint32_t>(i) * 2654435761U);
        expected ^= words.back();
      }
      const test::DeviceArray<std::uint32_t> memory("memory", words);
      const test::DeviceArray<std::uint32_t> sums("sums", static_cast<std::size_t>(read_memory_sums(n_blocks)));
      launch_read_memory(memory.data(), n_chunks * 16, n_blocks, sums.data(), nullptr);
      std::uint32_t sum = 0;
      for (const std::uint32_t part : sums.values()) sum ^= part;
      EXPECT_EQ(sum, expected);
      const auto reads = device.log().reads_of("memory");
      EXPECT_EQ(reads.lane_bytes, n_chunks * 16);
      EXPECT_EQ(reads.touched_bytes, n_chunks * 16);
      EXPECT_EQ(reads.sectors, reads.least_sectors);
    }
  }
}

TEST(CudaReadMemory, RefusesHalfAChunk) {
  const emulation::Device device;
  const test::DeviceArray<std::uint32_t> memory("memory", std::vector<std::uint32_t>(8, 0));
  const test::DeviceArray<std::uint32_t> sums("sums", static_cast<std::size_t>(read_memory_sums(1)));
  EXPECT_THROW(launch_read_memory(memory.data(), 24, 1, sums.data(), nullptr), InputError);
  EXPECT_THROW(launch_read_memory(memory.data() + 1, 16, 1, sums.data(), nullptr), InputError);
  EXPECT_THROW(launch_read_memory(memory.data(), 16, 0, sums.data(), nullptr), InputError);
}

}  // namespace
}  // namespace kvlab::cuda
