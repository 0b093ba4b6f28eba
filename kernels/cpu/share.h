// The part of an operation that one thread computes, and when a second thread pays. Kernels take a share and open no
// parallel region, so that an operation that runs by itself and a recorded graph can both call them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvlab::cpu {

/// Multiply-adds (or elements of a costly loop) below which one thread is quicker than several.
constexpr std::int64_t kSerialWork = 100'000;

/// Threads for `n_items` independent items that take `work` in all.
constexpr int threads_for(std::int64_t work, std::int64_t n_items, int n_threads) {
  return work < kSerialWork ? 1 : static_cast<int>(std::clamp<std::int64_t>(n_items, 1, n_threads));
}

/// One of the `n_lanes` parts that an operation is cut into. Which thread runs a lane does not matter.
struct Share {
  int lane = 0;
  int n_lanes = 1;
};

struct ItemRange {
  std::int64_t first;
  std::int64_t last;  // one past the end
};

/// This share of `n_items` items: neighbours, and as many as any other share's but for one.
constexpr ItemRange part_of(std::int64_t n_items, Share share) {
  return {n_items * share.lane / share.n_lanes, n_items * (share.lane + 1) / share.n_lanes};
}

}  // namespace kvlab::cpu
