// Walks through the bytes of a file and refuses to leave them. Every refusal names the file and the byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kvlab {

/// `text` in quotes, fit for a message: control bytes escaped, long text cut.
std::string in_quotes(std::string_view text);

class ByteReader {
 public:
  /// `path` and the bytes outlive the reader.
  ByteReader(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t remaining() const { return bytes_.size() - offset_; }

  /// Little-endian. `what` names the item in the error.
  std::uint32_t u32(std::string_view what) { return read<std::uint32_t>(what); }
  std::uint64_t u64(std::string_view what) { return read<std::uint64_t>(what); }
  /// The next `count` bytes, in place.
  std::span<const std::byte> take(std::uint64_t count, std::string_view what);
  /// A 64-bit length and that many bytes, in place.
  std::string_view string(std::string_view what);

  /// Throws InputError: "PATH: at byte OFFSET: MESSAGE".
  [[noreturn]] void refuse(std::string_view message) const { refuse_at(offset_, message); }
  [[noreturn]] void refuse_at(std::uint64_t offset, std::string_view message) const;

 private:
  template <typename T>
  T read(std::string_view what);

  const std::string& path_;
  std::span<const std::byte> bytes_;
  std::uint64_t offset_ = 0;
};

}  // namespace kvlab
