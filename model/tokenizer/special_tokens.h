// Finds pieces that are matched whole in text before any merging: control tokens when asked, user-defined ones always.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "model/tokenizer/vocabulary.h"

namespace kvlab {

class SpecialTokens {
 public:
  /// `vocabulary` outlives this.
  explicit SpecialTokens(const Vocabulary& vocabulary);

  /// The piece is matched whole where text spells it (when parsing of specials is on).
  bool is_matched(std::int32_t id) const;

  /// Cuts text at the leftmost, longest matches: `segment` gets the ordinary text between them (never empty), `token`
  /// the ids.
  void split(std::string_view text, bool parse_special, const std::function<void(std::string_view)>& segment,
             const std::function<void(std::int32_t)>& token) const;

 private:
  struct Match {
    std::int32_t id;
    std::size_t length;
  };
  std::optional<Match> match_at(std::string_view text, bool parse_special) const;

  const Vocabulary& vocabulary_;
  std::vector<std::size_t> lengths_;        // of the matched spellings, each once, longest first
  std::array<bool, 256> first_bytes_ = {};  // with which bytes they begin
};

}  // namespace kvlab
