// Printable Latin-1 stands for itself; the other 68 bytes are numbered upwards from U+0100.
#include "model/tokenizer/byte_alphabet.h"

#include <array>

#include "model/tokenizer/utf8.h"

namespace kvlab {
namespace {

constexpr char32_t kFirstMapped = 0x100;

bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::string, 256> characters;          // [byte]
  std::array<unsigned char, 68> mapped_bytes = {};  // [code point - kFirstMapped]

  Alphabet() {
    std::size_t n_mapped = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      char32_t code_point = byte;
      if (!stands_for_itself(byte)) {
        mapped_bytes[n_mapped] = static_cast<unsigned char>(byte);
        code_point = kFirstMapped + static_cast<char32_t>(n_mapped++);
      }
      append_utf8(characters[byte], code_point);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

std::optional<unsigned char> byte_of(char32_t code_point) {
  if (code_point < 256 && stands_for_itself(code_point)) return static_cast<unsigned char>(code_point);
  if (code_point < kFirstMapped) return std::nullopt;
  const std::size_t index = code_point - kFirstMapped;
  if (index >= alphabet().mapped_bytes.size()) return std::nullopt;
  return alphabet().mapped_bytes[index];
}

}  // namespace

std::string_view byte_character(unsigned char byte) { return alphabet().characters[byte]; }

std::string bytes_of_piece(std::string_view piece) {
  std::string bytes;
  for (std::size_t at = 0; at < piece.size();) {
    const Utf8Step step = utf8_step(piece, at);
    const std::string_view character = piece.substr(at, step.length);
    const auto byte = step.kind == Utf8Kind::whole ? byte_of(utf8_code_point(character)) : std::nullopt;
    if (byte) {
      bytes.push_back(static_cast<char>(*byte));
    } else {
      bytes.append(character);
    }
    at += step.length;
  }
  return bytes;
}

}  // namespace kvlab
