// How a test's cache of one layer lies: pages in shuffled order, or a region for each sequence with spare slots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/views.h"

namespace kvlab::cuda::test {

class KvLayout {
 public:
  /// For sequences of at most `longest` keys. page_size 0: regions.
  KvLayout(std::int64_t n_seqs, std::int64_t longest, std::int64_t n_kv_heads, std::int64_t head_dim, DType dtype,
           std::int64_t page_size)
      : n_kv_heads_(n_kv_heads) {
    const std::int64_t slots = page_size > 0 ? page_size : longest + 2;
    view_.dtype = dtype;
    view_.slot_stride = head_dim;
    view_.head_stride = slots * head_dim;
    view_.page_size = page_size;
    view_.page_stride = n_kv_heads * view_.head_stride;
    view_.pages_per_seq = page_size > 0 ? (longest + slots - 1) / slots : 0;
    table_.resize(static_cast<std::size_t>(n_seqs * view_.pages_per_seq));
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(5));
    for (std::int64_t s = 0; s < n_seqs; ++s) regions_.push_back(s * view_.page_stride);
    n_elements_ = (page_size > 0 ? n_seqs * view_.pages_per_seq : n_seqs) * view_.page_stride;
  }

  bool is_paged() const { return view_.page_size > 0; }
  /// Strides and type, without pointers.
  const KvView& view() const { return view_; }
  /// With this object's own table or regions, and without K and V.
  KvView host_view() const { return view_over(table_.data(), regions_.data()); }
  /// With the one of the two that the layout uses.
  KvView view_over(const std::int32_t* table, const std::int64_t* regions) const {
    KvView view = view_;
    view.page_table = is_paged() ? table : nullptr;
    view.region_offset = is_paged() ? nullptr : regions;
    return view;
  }
  const std::vector<std::int32_t>& table() const { return table_; }
  const std::vector<std::int64_t>& regions() const { return regions_; }
  /// Of K, and of V.
  std::int64_t n_elements() const { return n_elements_; }

  /// K (or V) as the cache holds it; slots that hold no key are `empty`. rows: [kv_len, n_kv_heads * head_dim] for each
  /// sequence.
  template <typename T, typename Convert>
  std::vector<T> stored(const std::vector<std::vector<float>>& rows, T empty, Convert convert) const {
    const KvView view = host_view();
    const std::int64_t head_dim = view_.slot_stride;
    std::vector<T> memory(static_cast<std::size_t>(n_elements_), empty);
    for (std::size_t s = 0; s < rows.size(); ++s) {
      for (std::size_t i = 0; i < rows[s].size(); ++i) {
        const auto element = static_cast<std::int64_t>(i);
        const std::int64_t head = element / head_dim % n_kv_heads_;
        const std::int64_t pos = element / head_dim / n_kv_heads_;
        const std::int64_t at = kv_offset(view, static_cast<std::int64_t>(s), head, pos) + element % head_dim;
        memory[static_cast<std::size_t>(at)] = convert(rows[s][i]);
      }
    }
    return memory;
  }

 private:
  std::int64_t n_kv_heads_;
  KvView view_;
  std::vector<std::int32_t> table_;    // [n_seqs, pages_per_seq]
  std::vector<std::int64_t> regions_;  // [n_seqs]
  std::int64_t n_elements_ = 0;
};

}  // namespace kvlab::cuda::test
