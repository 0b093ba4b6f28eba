// How attention and append find rows in a cache: the keys that a query sees, and where they stand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/views.h"

namespace kvlab::cpu {

/// Keys first <= j < last.
struct KeyRange {
  std::int64_t first;
  std::int64_t last;
  bool empty() const { return first >= last; }
};

inline KeyRange intersect(KeyRange a, KeyRange b) { return {std::max(a.first, b.first), std::min(a.last, b.last)}; }

/// Keys that the query at `pos` sees; none when pos < 0.
inline KeyRange visible_keys(std::int64_t pos, std::int64_t window) {
  return {window > 0 ? std::max<std::int64_t>(0, pos - window + 1) : 0, pos + 1};
}

/// offsets[i] = kv_offset(view, seq, kv_head, keys.first + i); one look at the page table a page.
void find_rows(const KvView& view, std::int64_t seq, std::int64_t kv_head, KeyRange keys, std::int64_t* offsets);

/// Throws std::invalid_argument when a sequence is longer than its row of the page table.
void check_view(const KvView& view, std::span<const SequenceSpan> seqs);

}  // namespace kvlab::cpu
