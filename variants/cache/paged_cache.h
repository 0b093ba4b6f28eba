// cache=paged: pages of `page_size` slots from a pool, found through a page table a sequence (as in PagedAttention,
// Kwon et al. 2023). A sequence holds ceil(len / page_size) pages.
#pragma once

#include <memory>
#include <vector>

#include "variants/cache/kv_cache.h"
#include "variants/cache/page_pool.h"

namespace kvlab {

class PagedCache : public KvCache {
 public:
  PagedCache(const KvShape& shape, std::int64_t n_seqs, std::int64_t capacity, std::int64_t page_size, Operations& ops,
             std::uint64_t seed);

  bool keeps_tokens() const override { return true; }
  void reserve(std::int64_t seq, std::int64_t n_tokens) override;
  void begin_step(std::span<const SequenceSpan> seqs, std::span<const std::int64_t> ids) override;
  std::int64_t append(Operations& ops, std::int64_t layer, const QkvRows& rows) override;
  KvView view(std::int64_t layer) const override;
  void release(std::int64_t seq) override;
  KvFootprint footprint() const override;

  /// Pages that a sequence holds now, in order of position.
  const std::vector<std::int32_t>& pages(std::int64_t seq) const { return pages_.at(static_cast<std::size_t>(seq)); }

 private:
  KvShape shape_;
  std::int64_t n_seqs_;
  std::int64_t page_size_;
  std::int64_t pages_per_seq_;
  std::int64_t bytes_per_token_;
  PagePool pool_;
  std::unique_ptr<Buffer> k_;                     // [n_layers, n_pages, n_kv_heads, page_size, head_dim]
  std::unique_ptr<Buffer> v_;                     // the same
  std::vector<std::vector<std::int32_t>> pages_;  // [n_seqs] page numbers
  std::vector<std::int64_t> tokens_;              // [n_seqs]
  std::int64_t most_pages_ = 0;                   // in use at one time
  std::vector<SequenceSpan> step_;                // the step's sequences
  std::vector<std::int32_t> table_;               // [n_seqs of the step, pages_per_seq]
};

}  // namespace kvlab
