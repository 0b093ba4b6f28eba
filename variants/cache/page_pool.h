// Hands out pages by number, in a seeded shuffled order so that no result can lean on neighbouring pages; takes them
// back.
#pragma once

#include <cstdint>
#include <vector>

namespace kvlab {

class PagePool {
 public:
  PagePool(std::int64_t n_pages, std::uint64_t seed);

  /// Throws InputError when none is free.
  std::int32_t take();
  void give_back(std::int32_t page);
  std::int64_t n_free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t n_pages() const { return n_pages_; }

 private:
  std::int64_t n_pages_;
  std::vector<std::int32_t> free_;  // the last one goes first
};

}  // namespace kvlab
