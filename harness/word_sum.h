// Reads words as quickly as the core's vectors allow; the one loop of the bandwidth ceilings that memcpy and memset do
// not give.
#pragma once

#include <cstdint>

namespace kvlab {

/// Sum modulo 2^64 of `words` [n]. `n` is a multiple of 64; `words` is aligned to 64 bytes.
std::uint64_t sum_words(const std::uint64_t* words, std::int64_t n);

}  // namespace kvlab
