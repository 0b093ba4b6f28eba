// UTF-8 one character at a time: validity, code points, and what is cut off at the end of a text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kvlab {

enum class Utf8Kind {
  whole,       // a valid character
  incomplete,  // the text ends inside what may become one
  invalid,     // can never become one
};

struct Utf8Step {
  Utf8Kind kind;
  std::size_t length;  // bytes it covers: of an invalid sequence, its longest prefix that was still possible (>= 1)
};

/// What stands at byte `at` (< text.size()).
Utf8Step utf8_step(std::string_view text, std::size_t at);

/// The offset of the first byte that begins no valid character; nullopt when the text is UTF-8.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

/// Throws InputError with the byte offset when the text is not UTF-8.
void require_utf8(std::string_view text);

/// The code point of one valid character.
char32_t utf8_code_point(std::string_view character);
void append_utf8(std::string& text, char32_t code_point);

/// The character that stands for bytes which are none: U+FFFD.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace kvlab
