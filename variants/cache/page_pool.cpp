#include "variants/cache/page_pool.h"

#include <fmt/format.h>

#include <numeric>
#include <random>
#include <utility>

#include "kernels/error.h"

namespace kvlab {

PagePool::PagePool(std::int64_t n_pages, std::uint64_t seed)
    : n_pages_(n_pages), free_(static_cast<std::size_t>(n_pages)) {
  std::iota(free_.begin(), free_.end(), 0);
  // Fisher-Yates by hand: std::shuffle may differ between libraries, and a run must be repeatable anywhere.
  std::mt19937_64 random(seed);
  for (std::size_t i = free_.size(); i > 1; --i) std::swap(free_[i - 1], free_[random() % i]);
}

std::int32_t PagePool::take() {
  if (free_.empty()) throw InputError(fmt::format("all {} pages of the cache are in use", n_pages_));
  const std::int32_t page = free_.back();
  free_.pop_back();
  return page;
}

void PagePool::give_back(std::int32_t page) { free_.push_back(page); }

}  // namespace kvlab
