// The views through which kernels see a ragged batch and a KV cache, whatever policy owns the memory.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/dtype.h"

namespace kvlab {

/// One sequence's part of a step. Query i of the part stands at position kv_len - n_queries + i and sees keys up to
/// its own position (and, with a window w, only the last w of them).
struct SequenceSpan {
  std::int64_t first_row;  // its first row in the step's [n_tokens, ...] buffers
  std::int64_t n_queries;  // rows in this step
  std::int64_t kv_len;     // keys it may see in all: cached + those of this step
};

/// K and V of one layer. Element (sequence s, KV head h, position p, component 0) stands at `kv_offset(...)`.
/// With a page table: pages [n_pages, n_kv_heads, page_size, head_dim] (strides say so); without: one region a
/// sequence.
struct KvView {
  void* k = nullptr;  // elements of `dtype`
  void* v = nullptr;
  DType dtype = DType::f32;
  std::int64_t page_stride = 0;              // elements from one page to the next; unused without a page table
  std::int64_t head_stride = 0;              // elements from one KV head to the next
  std::int64_t slot_stride = 0;              // elements from one position to the next inside a page or region
  std::int64_t page_size = 0;                // slots a page; unused without a page table
  const std::int32_t* page_table = nullptr;  // [n_seqs, pages_per_seq] in batch order, or null
  std::int64_t pages_per_seq = 0;
  const std::int64_t* region_offset = nullptr;  // [n_seqs] elements, in batch order; used without a page table
};

/// Offset in elements of a K or V row. 64-bit throughout: caches exceed 2^31 elements.
inline std::int64_t kv_offset(const KvView& view, std::int64_t seq, std::int64_t kv_head, std::int64_t pos) {
  if (view.page_table == nullptr) {
    return view.region_offset[seq] + kv_head * view.head_stride + pos * view.slot_stride;
  }
  const std::int64_t page = view.page_table[seq * view.pages_per_seq + pos / view.page_size];
  return page * view.page_stride + kv_head * view.head_stride + (pos % view.page_size) * view.slot_stride;
}

struct AttentionArgs {
  const float* q = nullptr;  // [n_rows, n_heads * head_dim], rows q_stride apart
  std::int64_t q_stride = 0;
  float* out = nullptr;  // [n_rows, n_heads * head_dim], rows out_stride apart
  std::int64_t out_stride = 0;
  KvView kv;
  std::span<const SequenceSpan> seqs;  // [n_seqs]; first_row indexes q and out
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  // 0: none; otherwise query i sees keys i - window < j <= i
  float scale = 1.0F;
};

/// What an attention kernel executed, counted while running, for query head 0, summed over sequences.
struct AttentionWork {
  std::int64_t dots = 0;             // query . key products
  std::int64_t dots_newest_row = 0;  // those of each sequence's last row

  AttentionWork& operator+=(const AttentionWork& other) {
    dots += other.dots;
    dots_newest_row += other.dots_newest_row;
    return *this;
  }
};

/// The most rows that a sequence has in a step; 0 without sequences.
inline std::int64_t most_queries(std::span<const SequenceSpan> seqs) {
  std::int64_t most = 0;
  for (const SequenceSpan& seq : seqs) most = seq.n_queries > most ? seq.n_queries : most;
  return most;
}

/// The products of a mask that is followed exactly: what `attention` executes, from the spans alone.
inline AttentionWork visible_work(std::span<const SequenceSpan> seqs, std::int64_t window) {
  AttentionWork work;
  for (const SequenceSpan& seq : seqs) {
    for (std::int64_t i = 0; i < seq.n_queries; ++i) {
      const std::int64_t causal = seq.kv_len - seq.n_queries + i + 1;
      const std::int64_t seen = window > 0 && window < causal ? window : causal;
      work.dots += seen;
      if (i == seq.n_queries - 1) work.dots_newest_row += seen;
    }
  }
  return work;
}

}  // namespace kvlab
