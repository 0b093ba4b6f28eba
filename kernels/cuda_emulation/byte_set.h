// A set of bytes of one buffer: which were read, which were written.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvlab::cuda::emulation {

class ByteSet {
 public:
  /// Adds bytes [first, first + n).
  void add(std::size_t first, std::size_t n) {
    if (const std::size_t needed = (first + n + 63) / 64; words_.size() < needed) words_.resize(needed, 0);
    for (std::size_t i = first; i < first + n; ++i) words_[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  void add(const ByteSet& other) {
    if (words_.size() < other.words_.size()) words_.resize(other.words_.size(), 0);
    for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  }
  /// Whether any of [first, first + n) is in the set.
  bool any(std::size_t first, std::size_t n) const {
    for (std::size_t i = first; i < first + n && i / 64 < words_.size(); ++i) {
      if ((words_[i / 64] >> (i % 64) & 1U) != 0) return true;
    }
    return false;
  }
  std::int64_t count() const {
    std::int64_t n = 0;
    for (const std::uint64_t word : words_) n += std::popcount(word);
    return n;
  }
  void clear() { words_.clear(); }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace kvlab::cuda::emulation
