// Columns of even width.
#include "harness/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvlab {

std::string aligned(const std::vector<std::vector<std::string>>& lines, std::size_t n_left_aligned) {
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) {
      row += i < n_left_aligned ? fmt::format("{:<{}}  ", line[i], widths[i])
                                : fmt::format("{:>{}}  ", line[i], widths[i]);
    }
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace kvlab
