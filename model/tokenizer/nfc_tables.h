// What composing must know of Unicode 14.0.0; written by scripts/make_nfc_tables.py: do not edit.
#pragma once

#include <array>
#include <cstdint>

namespace kvlab {

/// One canonical step from a character to one or two others; Hangul syllables are left to arithmetic.
struct Decomposition {
  char32_t code;
  char32_t first;
  char32_t second;  // 0: a single character
  bool composes;    // first and second are put together again
};

/// Neighbours with the same combining class, none of class 0.
struct CombiningRange {
  char32_t first;
  char32_t last;
  std::uint8_t combining_class;
};

// Both ascending.
extern const std::array<Decomposition, 2061> kDecompositions;
extern const std::array<CombiningRange, 382> kCombiningRanges;

}  // namespace kvlab
