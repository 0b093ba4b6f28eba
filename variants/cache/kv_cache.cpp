#include "variants/cache/kv_cache.h"

#include <stdexcept>

#include "variants/cache/contiguous_cache.h"
#include "variants/cache/no_cache.h"
#include "variants/cache/paged_cache.h"

namespace kvlab {

std::int64_t kv_bytes_per_token(CacheKind cache, const KvShape& shape) {
  if (cache == CacheKind::none) return 0;
  const std::int64_t heads = 2 * shape.n_kv_heads + (cache == CacheKind::qkv ? shape.n_heads : 0);
  return shape.n_layers * heads * shape.head_dim * static_cast<std::int64_t>(dtype_bytes(shape.dtype));
}

std::int64_t appended_bytes(std::span<const SequenceSpan> seqs, std::int64_t heads, const KvShape& shape) {
  std::int64_t rows = 0;
  for (const SequenceSpan& seq : seqs) rows += seq.n_queries;
  return rows * heads * shape.head_dim * static_cast<std::int64_t>(dtype_bytes(shape.dtype));
}

void append_kv(Operations& ops, const KvShape& shape, std::span<const SequenceSpan> seqs, const QkvRows& rows,
               const KvView& view) {
  const PendingRotation& rotation = rows.rotation;
  if (rotation.cos_sin == nullptr) {
    ops.append(rows.k, rows.v, rows.stride, seqs, shape.n_kv_heads, shape.head_dim, view);
    return;
  }
  ops.rope_append({rows.q, rows.stride, rotation.n_heads, shape.n_kv_heads, shape.head_dim, rotation.positions,
                   rotation.cos_sin, seqs, view});
}

std::unique_ptr<KvCache> make_cache(const Variant& variant, const KvShape& shape, std::int64_t n_seqs,
                                    std::int64_t capacity, Operations& ops, std::uint64_t seed) {
  switch (variant.cache) {
    case CacheKind::none:
      return std::make_unique<NoCache>(shape, n_seqs, capacity);
    case CacheKind::contiguous:
      return std::make_unique<ContiguousCache>(shape, n_seqs, capacity, ops, false);
    case CacheKind::qkv:
      return std::make_unique<ContiguousCache>(shape, n_seqs, capacity, ops, true);
    case CacheKind::paged:
      return std::make_unique<PagedCache>(shape, n_seqs, capacity, variant.page_size, ops, seed);
  }
  throw std::logic_error("unknown cache kind");
}

}  // namespace kvlab
