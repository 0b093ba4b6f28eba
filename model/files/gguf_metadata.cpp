// Sizes and decodes GGUF metadata. Nothing is copied at opening, so a count of 2^63 costs nothing but its refusal.
#include "model/files/gguf_metadata.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>

namespace kvlab {
namespace {

constexpr int kDeepestList = 4;

struct TypeFact {
  std::string_view name;
  std::uint64_t bytes;  // 0: of no fixed size
};

constexpr std::array<TypeFact, 13> kTypes = {{{"u8", 1},
                                              {"i8", 1},
                                              {"u16", 2},
                                              {"i16", 2},
                                              {"u32", 4},
                                              {"i32", 4},
                                              {"f32", 4},
                                              {"bool", 1},
                                              {"string", 0},
                                              {"list", 0},
                                              {"u64", 8},
                                              {"i64", 8},
                                              {"f64", 8}}};

const TypeFact& fact(GgufType type) { return kTypes[static_cast<std::size_t>(type)]; }

GgufType read_type(ByteReader& reader, std::string_view key) {
  const std::uint64_t place = reader.offset();
  const std::uint32_t number = reader.u32("a metadata type");
  if (number >= kTypes.size()) {
    reader.refuse_at(place, fmt::format("metadata key {} has the unknown type {}", in_quotes(key), number));
  }
  return static_cast<GgufType>(number);
}

void check_booleans(const ByteReader& reader, std::span<const std::byte> bytes, std::string_view key) {
  for (const std::byte byte : bytes) {
    if (byte > std::byte{1}) {
      reader.refuse(fmt::format("metadata key {} holds a bool that is neither 0 nor 1", in_quotes(key)));
    }
  }
}

void skip_elements(ByteReader& reader, GgufType type, std::uint64_t count, std::string_view key, int depth);

void skip_list(ByteReader& reader, std::string_view key, int depth) {
  if (depth >= kDeepestList) {
    reader.refuse(fmt::format("metadata key {} has lists nested more than {} deep", in_quotes(key), kDeepestList));
  }
  const GgufType type = read_type(reader, key);
  const std::uint64_t count = reader.u64("the length of a list");
  skip_elements(reader, type, count, key, depth + 1);
}

void skip_elements(ByteReader& reader, GgufType type, std::uint64_t count, std::string_view key, int depth) {
  const std::string what = fmt::format("the value of metadata key {}", in_quotes(key));
  if (const std::uint64_t size = fact(type).bytes; size != 0) {
    if (count > reader.remaining() / size) {
      reader.refuse(fmt::format("{} has {} elements, more than the rest of the file holds; it is damaged or cut short",
                                what, count));
    }
    const auto bytes = reader.take(count * size, what);
    if (type == GgufType::boolean) check_booleans(reader, bytes, key);
    return;
  }
  // Each element takes bytes of its own, so a count that is too large meets the end of the file.
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type == GgufType::string) {
      reader.string(what);
    } else {
      skip_list(reader, key, depth);
    }
  }
}

/// The bytes between the reader's place now and after `skip`.
template <typename Skip>
std::span<const std::byte> bytes_skipped(ByteReader& reader, Skip skip) {
  ByteReader start = reader;
  skip();
  return start.take(reader.offset() - start.offset(), "a metadata value");
}

template <typename T>
T element(const GgufValue& value, std::uint64_t i) {
  T out;
  std::memcpy(&out, value.bytes.data() + i * sizeof(T), sizeof(T));
  return out;
}

template <typename T, typename Out>
std::optional<std::vector<Out>> elements_as(const GgufValue& value) {
  std::vector<Out> out(value.count);
  for (std::uint64_t i = 0; i < value.count; ++i) {
    const T stored = element<T>(value, i);
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (stored > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    }
    out[i] = static_cast<Out>(stored);
  }
  return out;
}

}  // namespace

GgufValue read_gguf_value(ByteReader& reader, std::string_view key) {
  GgufValue value;
  value.type = read_type(reader, key);
  if (value.type == GgufType::array) {
    value.is_list = true;
    value.type = read_type(reader, key);
    value.count = reader.u64("the length of a list");
  }
  value.bytes = bytes_skipped(reader, [&] { skip_elements(reader, value.type, value.count, key, 1); });
  return value;
}

std::optional<std::vector<std::int64_t>> gguf_integers(const GgufValue& value) {
  switch (value.type) {
    case GgufType::u8:
      return elements_as<std::uint8_t, std::int64_t>(value);
    case GgufType::i8:
      return elements_as<std::int8_t, std::int64_t>(value);
    case GgufType::u16:
      return elements_as<std::uint16_t, std::int64_t>(value);
    case GgufType::i16:
      return elements_as<std::int16_t, std::int64_t>(value);
    case GgufType::u32:
      return elements_as<std::uint32_t, std::int64_t>(value);
    case GgufType::i32:
      return elements_as<std::int32_t, std::int64_t>(value);
    case GgufType::u64:
      return elements_as<std::uint64_t, std::int64_t>(value);
    case GgufType::i64:
      return elements_as<std::int64_t, std::int64_t>(value);
    default:
      return std::nullopt;
  }
}

std::optional<std::vector<double>> gguf_floats(const GgufValue& value) {
  if (value.type == GgufType::f32) return elements_as<float, double>(value);
  if (value.type == GgufType::f64) return elements_as<double, double>(value);
  return std::nullopt;
}

std::optional<std::vector<std::string_view>> gguf_strings(const GgufValue& value) {
  if (value.type != GgufType::string) return std::nullopt;
  std::vector<std::string_view> out;
  out.reserve(value.count);
  const auto* text = reinterpret_cast<const char*>(value.bytes.data());
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < value.count; ++i) {
    std::uint64_t length = 0;
    std::memcpy(&length, text + at, sizeof(length));
    out.emplace_back(text + at + sizeof(length), length);
    at += sizeof(length) + length;
  }
  return out;
}

std::optional<bool> gguf_boolean(const GgufValue& value) {
  if (value.type != GgufType::boolean || value.is_list) return std::nullopt;
  return value.bytes[0] == std::byte{1};
}

std::string gguf_type_name(const GgufValue& value) {
  return fmt::format("{}{}", value.is_list ? "a list of " : "", fact(value.type).name);
}

}  // namespace kvlab
