// The pieces of a vocabulary: id to spelling, spelling to id, and what kind of piece each is.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvlab {

/// Numbered as in `tokenizer.ggml.token_type`.
enum class PieceType : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

class Vocabulary {
 public:
  /// Copies the spellings. `types` has an entry per piece. Of two pieces spelled alike the lower id is found.
  Vocabulary(std::span<const std::string_view> pieces, std::vector<PieceType> types);

  std::int64_t size() const { return static_cast<std::int64_t>(types_.size()); }
  bool contains(std::int32_t id) const { return id >= 0 && id < size(); }
  std::string_view piece(std::int32_t id) const { return pieces_[static_cast<std::size_t>(id)]; }
  PieceType type(std::int32_t id) const { return types_[static_cast<std::size_t>(id)]; }

  /// By spelling, whatever the type.
  std::optional<std::int32_t> find(std::string_view piece) const;
  /// By spelling, among the pieces that merging may make: ordinary ones, not those matched whole nor bytes.
  std::optional<std::int32_t> find_text(std::string_view piece) const;
  /// The piece of type byte that stands for `value` ("<0x0A>").
  std::optional<std::int32_t> byte_piece(unsigned char value) const;

 private:
  std::vector<char> spellings_;           // every piece, one after the other
  std::vector<std::string_view> pieces_;  // [size] into spellings_
  std::vector<PieceType> types_;          // [size]
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::array<std::int32_t, 256> byte_pieces_;  // -1: none
};

/// The value of a byte piece's spelling: 10 for "<0x0A>"; nullopt for any other spelling.
std::optional<unsigned char> parse_byte_piece(std::string_view piece);

}  // namespace kvlab
