// Spellings live in one block; everything else points into it, so that no lookup copies.
#include "model/tokenizer/vocabulary.h"

#include <charconv>

namespace kvlab {

std::optional<unsigned char> parse_byte_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  unsigned value = 0;
  const char* end = piece.data() + 5;
  const auto result = std::from_chars(piece.data() + 3, end, value, 16);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return static_cast<unsigned char>(value);
}

Vocabulary::Vocabulary(std::span<const std::string_view> pieces, std::vector<PieceType> types)
    : types_(std::move(types)) {
  byte_pieces_.fill(-1);
  std::size_t total_bytes = 0;
  for (const std::string_view piece : pieces) total_bytes += piece.size();
  spellings_.reserve(total_bytes);
  pieces_.reserve(pieces.size());
  ids_.reserve(pieces.size());
  for (const std::string_view piece : pieces) {
    const auto id = static_cast<std::int32_t>(pieces_.size());
    const char* begin = spellings_.data() + spellings_.size();
    spellings_.insert(spellings_.end(), piece.begin(), piece.end());
    pieces_.emplace_back(begin, piece.size());
    if (!piece.empty()) ids_.emplace(pieces_.back(), id);
    if (type(id) != PieceType::byte) continue;
    if (const auto value = parse_byte_piece(piece)) byte_pieces_[*value] = id;
  }
}

std::optional<std::int32_t> Vocabulary::find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::int32_t> Vocabulary::find_text(std::string_view piece) const {
  const auto id = find(piece);
  if (!id) return std::nullopt;
  if (type(*id) != PieceType::normal && type(*id) != PieceType::unused) return std::nullopt;
  return id;
}

std::optional<std::int32_t> Vocabulary::byte_piece(unsigned char value) const {
  const std::int32_t id = byte_pieces_[value];
  if (id < 0) return std::nullopt;
  return id;
}

}  // namespace kvlab
