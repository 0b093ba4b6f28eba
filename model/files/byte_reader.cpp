// Bounds are checked here and nowhere else: a count is compared with what is left, never added to an offset first.
#include "model/files/byte_reader.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "kernels/error.h"

namespace kvlab {

static_assert(std::endian::native == std::endian::little, "the file formats are little-endian and are read in place");

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + (text.size() > kLongest ? "...'" : "'");
}

template <typename T>
T ByteReader::read(std::string_view what) {
  T value;
  std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
  return value;
}

template std::uint32_t ByteReader::read(std::string_view);
template std::uint64_t ByteReader::read(std::string_view);

std::span<const std::byte> ByteReader::take(std::uint64_t count, std::string_view what) {
  if (count > remaining()) {
    refuse(fmt::format("{} needs {} bytes, but the file ends {} bytes further on; it is damaged or cut short", what,
                       count, remaining()));
  }
  const auto taken = bytes_.subspan(offset_, count);
  offset_ += count;
  return taken;
}

std::string_view ByteReader::string(std::string_view what) {
  const std::uint64_t length = u64(what);
  const auto taken = take(length, what);
  return {reinterpret_cast<const char*>(taken.data()), taken.size()};
}

void ByteReader::refuse_at(std::uint64_t offset, std::string_view message) const {
  throw InputError(fmt::format("{}: at byte {}: {}", path_, offset, message));
}

}  // namespace kvlab
