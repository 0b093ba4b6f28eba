// Encoding: special tokens, then words, then merging inside a word, then bytes (or the unknown id) for what has no
// piece.
#include "model/tokenizer/bpe_tokenizer.h"

#include <fmt/format.h>

#include <deque>
#include <iterator>

#include "kernels/error.h"
#include "model/tokenizer/explanation.h"
#include "model/tokenizer/utf8.h"

namespace kvlab {
namespace {

std::string hex_bytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    fmt::format_to(std::back_inserter(text), "{}{:02x}", text.empty() ? "" : " ", static_cast<unsigned char>(byte));
  }
  return text;
}

}  // namespace

BpeTokenizer::BpeTokenizer(TokenizerParts parts) : parts_(std::move(parts)), special_tokens_(*parts_.vocabulary) {}

void BpeTokenizer::append_symbols(std::string_view word, bool whole_words, std::vector<Symbol>& symbols) const {
  if (whole_words) {
    if (const auto id = parts_.vocabulary->find_text(word)) {
      symbols.push_back({.text = word, .id = *id, .starts_word = true});
      return;
    }
  }
  for (std::size_t at = 0; at < word.size();) {
    const std::string_view character = word.substr(at, utf8_step(word, at).length);
    const auto id = parts_.vocabulary->find_text(character);
    symbols.push_back({.text = character, .id = id.value_or(-1), .starts_word = at == 0});
    at += character.size();
  }
}

void BpeTokenizer::append_fallback(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::size_t n_before = ids.size();
  for (const char byte : text) {
    const auto id = parts_.vocabulary->byte_piece(static_cast<unsigned char>(byte));
    if (!id) break;
    ids.push_back(*id);
  }
  if (ids.size() == n_before + text.size()) return;
  ids.resize(n_before);
  if (!parts_.unknown_id) {
    throw InputError(fmt::format("{}: the vocabulary has no piece for '{}' (bytes {}); leave it out of the text",
                                 parts_.where, text, hex_bytes(parts_.form->bytes(text))));
  }
  if (parts_.fuse_unknown && !ids.empty() && ids.back() == *parts_.unknown_id) return;
  ids.push_back(*parts_.unknown_id);
}

void BpeTokenizer::append_ids(const Symbol& symbol, std::vector<std::int32_t>& ids) const {
  if (symbol.text.empty()) return;
  if (symbol.id >= 0) {
    ids.push_back(symbol.id);
  } else {
    append_fallback(symbol.text, ids);
  }
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text, bool parse_special) const {
  require_utf8(text);
  std::vector<std::int32_t> ids;
  std::vector<Symbol> symbols;
  const auto encode_word = [&](std::string_view word) {
    symbols.clear();
    append_symbols(word, parts_.whole_words_first, symbols);
    merge_symbols(symbols, *parts_.merges);
    for (const Symbol& symbol : symbols) append_ids(symbol, ids);
  };
  special_tokens_.split(
      text, parse_special, [&](std::string_view segment) { parts_.form->words(segment, encode_word); },
      [&](std::int32_t id) { ids.push_back(id); });
  return ids;
}

std::string BpeTokenizer::token_bytes(std::int32_t id) const {
  const Vocabulary& vocabulary = *parts_.vocabulary;
  if (!vocabulary.contains(id)) return "";
  const std::string_view piece = vocabulary.piece(id);
  switch (vocabulary.type(id)) {
    case PieceType::control:
    case PieceType::unknown:
      return std::string(piece);
    case PieceType::user_defined:
      return parts_.form->user_defined_bytes(piece);
    case PieceType::byte:
      if (const auto value = parse_byte_piece(piece)) return std::string(1, static_cast<char>(*value));
      return std::string(piece);
    case PieceType::normal:
    case PieceType::unused:
      break;
  }
  return parts_.form->bytes(piece);
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  bool drops_space = parts_.form->dummy_space();
  for (const std::int32_t id : ids) {
    const bool matched = special_tokens_.is_matched(id);
    std::string bytes = token_bytes(id);
    if (drops_space && !matched && bytes.starts_with(' ')) bytes.erase(0, 1);
    drops_space = parts_.form->dummy_space() && matched;
    text += bytes;
  }
  return text;
}

std::string BpeTokenizer::piece(std::int32_t id) const {
  return parts_.vocabulary->contains(id) ? std::string(parts_.vocabulary->piece(id)) : "";
}

std::optional<std::int32_t> BpeTokenizer::find_piece(std::string_view piece) const {
  return parts_.vocabulary->find(piece);
}

bool BpeTokenizer::is_special(std::int32_t id) const {
  if (!parts_.vocabulary->contains(id)) return false;
  const PieceType type = parts_.vocabulary->type(id);
  return type == PieceType::control || type == PieceType::unknown;
}

std::vector<std::string> BpeTokenizer::explain(std::string_view text) const {
  require_utf8(text);
  std::deque<std::string> words;  // keeps the spellings that symbols point to in place
  std::vector<Symbol> symbols;
  const auto add_word = [&](std::string_view word) { append_symbols(words.emplace_back(word), false, symbols); };
  special_tokens_.split(
      text, false, [&](std::string_view segment) { parts_.form->words(segment, add_word); },
      [&](std::int32_t id) {
        symbols.push_back({.text = parts_.vocabulary->piece(id), .id = id, .starts_word = true});
      });
  Explanation explanation(symbols);
  merge_symbols(symbols, *parts_.merges,
                [&](std::int64_t left, std::int64_t right) { explanation.before_merge(symbols, left, right); });
  std::vector<std::string> pieces;
  for (const std::int32_t id : encode(text, false)) pieces.push_back(piece(id));
  return std::move(explanation).finish(symbols, pieces);
}

}  // namespace kvlab
