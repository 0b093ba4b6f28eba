// The alphabet of byte-level vocabularies: every byte has a printable character ("Ġ" is the space), so that pieces can
// be written down as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvlab {

/// The character of a byte, in UTF-8.
std::string_view byte_character(unsigned char byte);

/// The bytes that a piece of a byte-level vocabulary stands for; a character outside the alphabet stands for itself.
std::string bytes_of_piece(std::string_view piece);

}  // namespace kvlab
