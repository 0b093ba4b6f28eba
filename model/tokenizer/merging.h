// Byte-pair merging: the pair of neighbours with the lowest order is joined first (of equals the leftmost), until no
// pair can be joined. O(n log n) in the number of symbols.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/tokenizer/vocabulary.h"

namespace kvlab {

struct Symbol {
  std::string_view text;     // in the vocabulary's spelling; empty once joined to its left neighbour
  std::int32_t id = -1;      // -1: no piece of that spelling
  bool starts_word = false;  // never joined to what stands before it
  std::int64_t prev = -1;    // indices of the neighbours, kept by merge_symbols
  std::int64_t next = -1;    // -1: none
};

struct Merge {
  double order;     // lower goes first
  std::int32_t id;  // of the joined piece
};

/// Which neighbours may be joined, and in which order. The texts of two neighbours of one word are contiguous.
class MergeRule {
 public:
  virtual ~MergeRule() = default;
  virtual std::optional<Merge> find(const Symbol& left, const Symbol& right) const = 0;
};

/// A list of pairs, in the order of their ranks.
class RankedPairs final : public MergeRule {
 public:
  void reserve(std::size_t n_pairs) { merges_.reserve(n_pairs); }
  /// The next rank. A pair that is listed twice keeps its last rank, as published vocabularies are read elsewhere.
  void add(std::int32_t left, std::int32_t right, std::int32_t joined);
  std::optional<Merge> find(const Symbol& left, const Symbol& right) const override;

 private:
  std::unordered_map<std::uint64_t, Merge> merges_;  // by (left id, right id)
  double next_rank_ = 0;
};

/// Any two neighbours whose joined text is a piece; the highest score goes first.
class ScoredPieces final : public MergeRule {
 public:
  /// `scores` [vocabulary size], none NaN.
  ScoredPieces(std::shared_ptr<const Vocabulary> vocabulary, std::vector<float> scores)
      : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)) {}
  std::optional<Merge> find(const Symbol& left, const Symbol& right) const override;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<float> scores_;
};

/// Told of each merge before it happens: indices of the two symbols.
using MergeListener = std::function<void(std::int64_t left, std::int64_t right)>;

/// Joins symbols in place: a joined symbol keeps the left one's index, the right one's text becomes empty.
void merge_symbols(std::vector<Symbol>& symbols, const MergeRule& rule, const MergeListener& before_merge = {});

}  // namespace kvlab
