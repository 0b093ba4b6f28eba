// Numbers as people write them in flags and sweep files: whole text, in range, or an InputError that names the place.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace kvlab {

constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

/// `where` is the flag or key for the message. Refuses junk, overflow and values outside [low, high].
std::int64_t parse_integer(std::string_view where, std::string_view text, std::int64_t low, std::int64_t high);

/// A finite number in [low, high]; NaN and infinities are refused.
double parse_number(std::string_view where, std::string_view text, double low, double high);

/// "1,2,3": non-negative ids, at least one.
std::vector<std::int32_t> parse_ids(std::string_view where, std::string_view text);

}  // namespace kvlab
