// Typed metadata values of a GGUF file, left in the mapped file and decoded when asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/files/byte_reader.h"

namespace kvlab {

enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

/// A value whose bytes were walked once when the file was opened: decoding it cannot leave the file.
struct GgufValue {
  GgufType type = GgufType::u8;      // of the value, or of the elements of a list
  bool is_list = false;              // one level; lists of lists have type = array
  std::uint64_t count = 1;           // elements
  std::span<const std::byte> bytes;  // the elements, back to back
};

/// Walks over one value. Throws InputError with the place when it is malformed or runs past the end.
GgufValue read_gguf_value(ByteReader& reader, std::string_view key);

/// The elements as one kind, or nothing when the value is of another (integers of any width convert when they fit).
std::optional<std::vector<std::int64_t>> gguf_integers(const GgufValue& value);
std::optional<std::vector<double>> gguf_floats(const GgufValue& value);
std::optional<std::vector<std::string_view>> gguf_strings(const GgufValue& value);
std::optional<bool> gguf_boolean(const GgufValue& value);

/// "a list of strings", "u32", for messages.
std::string gguf_type_name(const GgufValue& value);

}  // namespace kvlab
