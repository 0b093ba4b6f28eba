// A look-up per distinct length at places whose first byte begins some special token: thousands of them cost nothing.
#include "model/tokenizer/special_tokens.h"

#include <algorithm>
#include <set>

namespace kvlab {
namespace {

bool matched_type(PieceType type, bool parse_special) {
  return type == PieceType::user_defined ||
         (parse_special && (type == PieceType::control || type == PieceType::unknown));
}

}  // namespace

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
  std::set<std::size_t, std::greater<>> lengths;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view piece = vocabulary.piece(id);
    if (piece.empty() || !is_matched(id)) continue;
    lengths.insert(piece.size());
    first_bytes_[static_cast<unsigned char>(piece[0])] = true;
  }
  lengths_.assign(lengths.begin(), lengths.end());
}

bool SpecialTokens::is_matched(std::int32_t id) const {
  return vocabulary_.contains(id) && matched_type(vocabulary_.type(id), true);
}

std::optional<SpecialTokens::Match> SpecialTokens::match_at(std::string_view text, bool parse_special) const {
  if (!first_bytes_[static_cast<unsigned char>(text[0])]) return std::nullopt;
  for (const std::size_t length : lengths_) {
    if (length > text.size()) continue;
    const auto id = vocabulary_.find(text.substr(0, length));
    if (id && matched_type(vocabulary_.type(*id), parse_special)) return Match{*id, length};
  }
  return std::nullopt;
}

void SpecialTokens::split(std::string_view text, bool parse_special,
                          const std::function<void(std::string_view)>& segment,
                          const std::function<void(std::int32_t)>& token) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto match = match_at(text.substr(at), parse_special);
    if (!match) {
      ++at;
      continue;
    }
    if (at > done) segment(text.substr(done, at - done));
    token(match->id);
    at += match->length;
    done = at;
  }
  if (done < text.size()) segment(text.substr(done));
}

}  // namespace kvlab
