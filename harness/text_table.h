// Lines of cells as a table for the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kvlab {

/// A row a line, all with as many cells as the first. The first `n_left_aligned` columns are aligned to the left
/// (names), the others to the right (numbers).
std::string aligned(const std::vector<std::vector<std::string>>& lines, std::size_t n_left_aligned);

}  // namespace kvlab
