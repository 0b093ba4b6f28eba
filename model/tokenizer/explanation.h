// Writes the states of a merging down for a reader: a line gathers merges until one would use a piece made in that
// line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/tokenizer/merging.h"

namespace kvlab {

class Explanation {
 public:
  /// The first line is the symbols as they stand.
  explicit Explanation(std::span<const Symbol> symbols);
  /// Called before symbols `left` and `right` are joined.
  void before_merge(std::span<const Symbol> symbols, std::int64_t left, std::int64_t right);
  /// The lines, the last of which is the final pieces.
  std::vector<std::string> finish(std::span<const Symbol> symbols, std::span<const std::string> pieces) &&;

 private:
  void add_line(std::string line);
  std::vector<std::string> lines_;
  std::vector<bool> made_in_line_;  // [symbols]
};

}  // namespace kvlab
