// Whole-text number parsing on std::from_chars, which knows no locale and reports overflow.
#include "harness/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <system_error>

#include "kernels/error.h"

namespace kvlab {

std::int64_t parse_integer(std::string_view where, std::string_view text, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool overflow = error == std::errc::result_out_of_range;
  if (!overflow && (error != std::errc{} || stop != end)) {
    throw InputError(fmt::format("{}: \"{}\" is not a whole number", where, text));
  }
  if (overflow || value < low || value > high) {
    throw InputError(fmt::format("{}: {} is out of range; allowed are {} to {}", where, text, low, high));
  }
  return value;
}

double parse_number(std::string_view where, std::string_view text, double low, double high) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end) {
    throw InputError(fmt::format("{}: \"{}\" is not a number", where, text));
  }
  if (error != std::errc{} || !std::isfinite(value)) {
    throw InputError(fmt::format("{}: {} is not a finite number", where, text));
  }
  if (value < low || value > high) {
    throw InputError(fmt::format("{}: {} is out of range; allowed are {} to {}", where, text, low, high));
  }
  return value;
}

std::vector<std::int32_t> parse_ids(std::string_view where, std::string_view text) {
  std::vector<std::int32_t> ids;
  while (true) {
    const std::size_t comma = text.find(',');
    ids.push_back(static_cast<std::int32_t>(parse_integer(where, text.substr(0, comma), 0, kMaxCount)));
    if (comma == std::string_view::npos) return ids;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace kvlab
