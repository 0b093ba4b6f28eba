// Counts and bytes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace kvlab {

/// "16,060,522,496".
std::string grouped(std::int64_t count);

/// "536,870,912 B (512 MiB)": exact, and in the largest of KiB, MiB, GiB that leaves at least 1, to three decimals.
std::string bytes_text(std::int64_t bytes);

}  // namespace kvlab
