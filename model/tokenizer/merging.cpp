// A linked list of symbols and a heap of possible merges; entries that a later merge made stale are skipped when met.
#include "model/tokenizer/merging.h"

#include <queue>

namespace kvlab {
namespace {

struct Candidate {
  double order;
  std::int64_t left;
  std::int64_t right;
  std::size_t joined_size;  // bytes of both when the entry was made: differs once either has grown
  std::int32_t id;
};

struct GoesLater {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.order != b.order ? a.order > b.order : a.left > b.left;
  }
};

class Merger {
 public:
  Merger(std::vector<Symbol>& symbols, const MergeRule& rule) : symbols_(symbols), rule_(rule) {
    const auto count = static_cast<std::int64_t>(symbols_.size());
    for (std::int64_t i = 0; i < count; ++i) {
      at(i).prev = i - 1;
      at(i).next = i + 1 < count ? i + 1 : -1;
    }
    for (std::int64_t i = 0; i + 1 < count; ++i) offer(i, i + 1);
  }

  void run(const MergeListener& before_merge) {
    while (!candidates_.empty()) {
      const Candidate top = candidates_.top();
      candidates_.pop();
      if (stale(top)) continue;
      if (before_merge) before_merge(top.left, top.right);
      join(top);
    }
  }

 private:
  Symbol& at(std::int64_t index) { return symbols_[static_cast<std::size_t>(index)]; }

  void offer(std::int64_t left, std::int64_t right) {
    if (left < 0 || right < 0 || at(right).starts_word) return;
    const auto merge = rule_.find(at(left), at(right));
    if (!merge) return;
    candidates_.push({merge->order, left, right, at(left).text.size() + at(right).text.size(), merge->id});
  }

  bool stale(const Candidate& candidate) {
    const Symbol& left = at(candidate.left);
    return left.text.empty() || left.next != candidate.right ||
           left.text.size() + at(candidate.right).text.size() != candidate.joined_size;
  }

  void join(const Candidate& candidate) {
    Symbol& left = at(candidate.left);
    Symbol& right = at(candidate.right);
    left.text = {left.text.data(), candidate.joined_size};
    left.id = candidate.id;
    left.next = right.next;
    if (right.next >= 0) at(right.next).prev = candidate.left;
    right.text = {};
    offer(left.prev, candidate.left);
    offer(candidate.left, left.next);
  }

  std::vector<Symbol>& symbols_;
  const MergeRule& rule_;
  std::priority_queue<Candidate, std::vector<Candidate>, GoesLater> candidates_;
};

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
}

}  // namespace

void RankedPairs::add(std::int32_t left, std::int32_t right, std::int32_t joined) {
  merges_.insert_or_assign(pair_key(left, right), Merge{next_rank_, joined});
  next_rank_ += 1;
}

std::optional<Merge> RankedPairs::find(const Symbol& left, const Symbol& right) const {
  const auto found = merges_.find(pair_key(left.id, right.id));
  if (found == merges_.end()) return std::nullopt;
  return found->second;
}

std::optional<Merge> ScoredPieces::find(const Symbol& left, const Symbol& right) const {
  const auto id = vocabulary_->find_text({left.text.data(), left.text.size() + right.text.size()});
  if (!id) return std::nullopt;
  return Merge{-static_cast<double>(scores_[static_cast<std::size_t>(*id)]), *id};
}

void merge_symbols(std::vector<Symbol>& symbols, const MergeRule& rule, const MergeListener& before_merge) {
  if (symbols.size() < 2) return;
  Merger(symbols, rule).run(before_merge);
}

}  // namespace kvlab
