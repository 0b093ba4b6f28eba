// Digits in groups of three, and binary units.
#include "harness/quantities.h"

#include <fmt/format.h>

#include <array>

namespace kvlab {

std::string grouped(std::int64_t count) {
  std::string text = fmt::format("{}", count);
  const std::ptrdiff_t first_digit = count < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > first_digit; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  static constexpr std::array<const char*, 3> kUnits = {"GiB", "MiB", "KiB"};
  std::int64_t unit_bytes = std::int64_t{1} << 30;
  for (const char* unit : kUnits) {
    if (bytes >= unit_bytes) {
      std::string number = fmt::format("{:.3f}", static_cast<double>(bytes) / static_cast<double>(unit_bytes));
      number.erase(number.find_last_not_of('0') + 1);
      if (number.back() == '.') number.pop_back();
      return fmt::format("{} B ({} {})", grouped(bytes), number, unit);
    }
    unit_bytes >>= 10;
  }
  return fmt::format("{} B", grouped(bytes));
}

}  // namespace kvlab
