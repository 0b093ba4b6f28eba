// When a parallel region pays: tiny models must not wake threads for a microsecond of work.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvlab::cpu {

/// Multiply-adds (or elements of a costly loop) below which one thread is quicker than a parallel region.
constexpr std::int64_t kSerialWork = 100'000;

/// Threads for `n_items` independent items that take `work` in all.
constexpr int threads_for(std::int64_t work, std::int64_t n_items, int n_threads) {
  return work < kSerialWork ? 1 : static_cast<int>(std::clamp<std::int64_t>(n_items, 1, n_threads));
}

}  // namespace kvlab::cpu
