// Walks a view run by run: a page holds consecutive slots, a region is one run.
#include "kernels/cpu/kv_rows.h"

#include <fmt/format.h>

#include <stdexcept>

namespace kvlab::cpu {

void find_rows(const KvView& view, std::int64_t seq, std::int64_t kv_head, KeyRange keys, std::int64_t* offsets) {
  for (std::int64_t pos = keys.first; pos < keys.last;) {
    const std::int64_t base = kv_offset(view, seq, kv_head, pos);
    const std::int64_t left = keys.last - pos;
    const std::int64_t run = view.page_table == nullptr ? left : std::min(left, view.page_size - pos % view.page_size);
    for (std::int64_t i = 0; i < run; ++i) *offsets++ = base + i * view.slot_stride;
    pos += run;
  }
}

void check_view(const KvView& view, std::span<const SequenceSpan> seqs) {
  if (view.page_table == nullptr) return;
  const std::int64_t room = view.pages_per_seq * view.page_size;
  for (const SequenceSpan& seq : seqs) {
    if (seq.kv_len > room) {
      throw std::invalid_argument(fmt::format("a sequence of {} tokens has a page table for {}", seq.kv_len, room));
    }
  }
}

}  // namespace kvlab::cpu
