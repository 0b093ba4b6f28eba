// The tokenizer of both kinds: special tokens, words, merging, fallback. What differs between the kinds is in its
// parts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/merging.h"
#include "model/tokenizer/special_tokens.h"
#include "model/tokenizer/text_form.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/vocabulary.h"

namespace kvlab {

/// What a file says of its tokenizer. Ids lie in the vocabulary.
struct TokenizerParts {
  std::string where;  // the file, for messages
  std::shared_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<const MergeRule> merges;
  std::unique_ptr<const TextForm> form;
  bool whole_words_first = false;          // `ignore_merges`: a word that is a piece is not merged
  std::optional<std::int32_t> unknown_id;  // for characters without a piece; nullopt: such text is refused
  bool fuse_unknown = false;               // neighbours without a piece share one unknown id
  std::optional<std::int32_t> bos_id;
  bool adds_bos = false;
  std::vector<std::int32_t> eos_ids;
  std::string chat_template;
};

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(TokenizerParts parts);

  std::vector<std::int32_t> encode(std::string_view text, bool parse_special) const override;
  std::string token_bytes(std::int32_t id) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::string piece(std::int32_t id) const override;
  std::vector<std::string> explain(std::string_view text) const override;
  std::int64_t vocab_size() const override { return parts_.vocabulary->size(); }
  std::optional<std::int32_t> bos_id() const override { return parts_.bos_id; }
  bool adds_bos() const override { return parts_.adds_bos; }
  std::vector<std::int32_t> eos_ids() const override { return parts_.eos_ids; }
  std::optional<std::int32_t> find_piece(std::string_view piece) const override;
  bool is_special(std::int32_t id) const override;
  std::string chat_template() const override { return parts_.chat_template; }

 private:
  /// The characters of a word; or the word itself where it is a piece and whole words go first.
  void append_symbols(std::string_view word, bool whole_words, std::vector<Symbol>& symbols) const;
  void append_ids(const Symbol& symbol, std::vector<std::int32_t>& ids) const;
  void append_fallback(std::string_view text, std::vector<std::int32_t>& ids) const;

  TokenizerParts parts_;
  SpecialTokens special_tokens_;
};

}  // namespace kvlab
