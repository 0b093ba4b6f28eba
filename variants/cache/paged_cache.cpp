#include "variants/cache/paged_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/error.h"

namespace kvlab {
namespace {

std::int64_t checked_page_count(std::int64_t n_seqs, std::int64_t capacity, std::int64_t page_size) {
  if (page_size < 1) throw InputError(fmt::format("page_size {}: must be at least 1", page_size));
  const std::int64_t pages = n_seqs * ((capacity + page_size - 1) / page_size);
  if (pages > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(
        fmt::format("page_size {} makes {} pages; page numbers are 32-bit: take larger pages", page_size, pages));
  }
  return pages;
}

}  // namespace

PagedCache::PagedCache(const KvShape& shape, std::int64_t n_seqs, std::int64_t capacity, std::int64_t page_size,
                       Operations& ops, std::uint64_t seed)
    : shape_(shape),
      n_seqs_(n_seqs),
      page_size_(page_size),
      pages_per_seq_(checked_page_count(1, capacity, page_size)),
      bytes_per_token_(kv_bytes_per_token(CacheKind::paged, shape)),
      pool_(checked_page_count(n_seqs, capacity, page_size), seed),
      pages_(static_cast<std::size_t>(n_seqs)),
      tokens_(static_cast<std::size_t>(n_seqs), 0) {
  const auto bytes =
      static_cast<std::size_t>(shape.n_layers * pool_.n_pages() * shape.n_kv_heads * page_size * shape.head_dim) *
      dtype_bytes(shape.dtype);
  k_ = ops.allocate(bytes, "K cache");
  v_ = ops.allocate(bytes, "V cache");
}

void PagedCache::reserve(std::int64_t seq, std::int64_t n_tokens) {
  std::vector<std::int32_t>& pages = pages_.at(static_cast<std::size_t>(seq));
  const std::int64_t needed = (n_tokens + page_size_ - 1) / page_size_;
  if (needed > pages_per_seq_) {
    throw InputError(fmt::format("sequence {} needs {} pages of {} tokens, its page table holds {}", seq, needed,
                                 page_size_, pages_per_seq_));
  }
  while (static_cast<std::int64_t>(pages.size()) < needed) pages.push_back(pool_.take());
  most_pages_ = std::max(most_pages_, pool_.n_pages() - pool_.n_free());
  tokens_[static_cast<std::size_t>(seq)] = n_tokens;
}

void PagedCache::begin_step(std::span<const SequenceSpan> seqs, std::span<const std::int64_t> ids) {
  step_.assign(seqs.begin(), seqs.end());
  table_.assign(ids.size() * static_cast<std::size_t>(pages_per_seq_), 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::vector<std::int32_t>& pages = pages_.at(static_cast<std::size_t>(ids[i]));
    std::copy(pages.begin(), pages.end(), table_.begin() + static_cast<std::ptrdiff_t>(i) * pages_per_seq_);
  }
}

std::int64_t PagedCache::append(Operations& ops, std::int64_t layer, const QkvRows& rows) {
  append_kv(ops, shape_, step_, rows, view(layer));
  return appended_bytes(step_, 2 * shape_.n_kv_heads, shape_);
}

KvView PagedCache::view(std::int64_t layer) const {
  KvView view;
  view.page_stride = shape_.n_kv_heads * page_size_ * shape_.head_dim;
  const std::int64_t layer_bytes =
      layer * pool_.n_pages() * view.page_stride * static_cast<std::int64_t>(dtype_bytes(shape_.dtype));
  view.k = static_cast<std::byte*>(k_->data()) + layer_bytes;
  view.v = static_cast<std::byte*>(v_->data()) + layer_bytes;
  view.dtype = shape_.dtype;
  view.head_stride = page_size_ * shape_.head_dim;
  view.slot_stride = shape_.head_dim;
  view.page_size = page_size_;
  view.page_table = table_.data();
  view.pages_per_seq = pages_per_seq_;
  return view;
}

void PagedCache::release(std::int64_t seq) {
  std::vector<std::int32_t>& pages = pages_.at(static_cast<std::size_t>(seq));
  for (const std::int32_t page : pages) pool_.give_back(page);
  pages.clear();
  tokens_[static_cast<std::size_t>(seq)] = 0;
}

KvFootprint PagedCache::footprint() const {
  KvFootprint footprint;
  footprint.bytes_per_token = bytes_per_token_;
  for (const std::int64_t tokens : tokens_) footprint.used_bytes += tokens * bytes_per_token_;
  footprint.reserved_bytes = (pool_.n_pages() - pool_.n_free()) * page_size_ * bytes_per_token_;
  footprint.table_bytes = n_seqs_ * pages_per_seq_ * static_cast<std::int64_t>(sizeof(std::int32_t));
  footprint.peak_bytes = most_pages_ * page_size_ * bytes_per_token_ + footprint.table_bytes;
  return footprint;
}

}  // namespace kvlab
