// One case of every kernel instance is run in several orders of blocks and threads, and must give the same bits in each
// (scripts/cuda_launched.py counts the orders).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/cuda_emulation/device.h"

namespace kvlab::cuda::test {

/// Seeds 0 (ascending) to 7.
constexpr std::uint64_t kThreadOrders = 8;

/// Calls run(), which launches kernels and returns their outputs as a vector, with a device of its own for each order.
template <typename Run>
void expect_the_same_in_every_order(const Run& run) {
  decltype(run()) first;
  for (std::uint64_t seed = 0; seed < kThreadOrders; ++seed) {
    const emulation::Device device({.seed = seed, .counts = false});
    const auto outputs = run();
    if (seed == 0) first = outputs;
    ASSERT_EQ(outputs.size(), first.size());
    EXPECT_EQ(std::memcmp(outputs.data(), first.data(), outputs.size() * sizeof(outputs[0])), 0) << "order " << seed;
  }
}

}  // namespace kvlab::cuda::test
