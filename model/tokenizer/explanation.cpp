// Lines of pieces parted by '|'.
#include "model/tokenizer/explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kvlab {
namespace {

std::string state_line(std::span<const Symbol> symbols) {
  std::string line;
  for (const Symbol& symbol : symbols) {
    if (symbol.text.empty()) continue;
    if (!line.empty()) line += '|';
    line += symbol.text;
  }
  return line;
}

}  // namespace

Explanation::Explanation(std::span<const Symbol> symbols) : made_in_line_(symbols.size(), false) {
  lines_.push_back(state_line(symbols));
}

void Explanation::add_line(std::string line) {
  if (line != lines_.back()) lines_.push_back(std::move(line));
}

void Explanation::before_merge(std::span<const Symbol> symbols, std::int64_t left, std::int64_t right) {
  const auto l = static_cast<std::size_t>(left);
  const auto r = static_cast<std::size_t>(right);
  if (made_in_line_[l] || made_in_line_[r]) {
    add_line(state_line(symbols));
    made_in_line_.assign(made_in_line_.size(), false);
  }
  made_in_line_[l] = true;
}

std::vector<std::string> Explanation::finish(std::span<const Symbol> symbols, std::span<const std::string> pieces) && {
  add_line(state_line(symbols));
  add_line(fmt::format("{}", fmt::join(pieces, "|")));
  return std::move(lines_);
}

}  // namespace kvlab
