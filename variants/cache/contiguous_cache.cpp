#include "variants/cache/contiguous_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/error.h"

namespace kvlab {

ContiguousCache::ContiguousCache(const KvShape& shape, std::int64_t n_seqs, std::int64_t capacity, Operations& ops,
                                 bool keep_q)
    : shape_(shape),
      n_seqs_(n_seqs),
      capacity_(capacity),
      bytes_per_token_(kv_bytes_per_token(keep_q ? CacheKind::qkv : CacheKind::contiguous, shape)),
      tokens_(static_cast<std::size_t>(n_seqs), 0) {
  const auto slots = static_cast<std::size_t>(shape.n_layers * n_seqs * capacity * shape.head_dim);
  const std::size_t kv_bytes = slots * static_cast<std::size_t>(shape.n_kv_heads) * dtype_bytes(shape.dtype);
  k_ = ops.allocate(kv_bytes, "K cache");
  v_ = ops.allocate(kv_bytes, "V cache");
  if (keep_q) q_ = ops.allocate(slots * static_cast<std::size_t>(shape.n_heads) * dtype_bytes(shape.dtype), "Q cache");
}

void ContiguousCache::reserve(std::int64_t seq, std::int64_t n_tokens) {
  if (n_tokens > capacity_) {
    throw InputError(fmt::format("sequence {} needs {} tokens, its cache region holds {}", seq, n_tokens, capacity_));
  }
  std::int64_t& tokens = tokens_.at(static_cast<std::size_t>(seq));
  if (tokens == 0 && n_tokens > 0) most_live_ = std::max(most_live_, ++n_live_);
  tokens = n_tokens;
}

void ContiguousCache::begin_step(std::span<const SequenceSpan> seqs, std::span<const std::int64_t> ids) {
  step_.assign(seqs.begin(), seqs.end());
  region_offset_.clear();
  q_region_offset_.clear();
  for (const std::int64_t id : ids) {
    region_offset_.push_back(id * shape_.n_kv_heads * capacity_ * shape_.head_dim);
    q_region_offset_.push_back(id * shape_.n_heads * capacity_ * shape_.head_dim);
  }
}

KvView ContiguousCache::region_view(Buffer& k, Buffer* v, std::int64_t layer, std::int64_t n_heads,
                                    const std::vector<std::int64_t>& offsets) const {
  const std::int64_t layer_elements = n_seqs_ * n_heads * capacity_ * shape_.head_dim;
  const std::int64_t layer_bytes = layer * layer_elements * static_cast<std::int64_t>(dtype_bytes(shape_.dtype));
  KvView view;
  view.k = static_cast<std::byte*>(k.data()) + layer_bytes;
  view.v = v == nullptr ? nullptr : static_cast<std::byte*>(v->data()) + layer_bytes;
  view.dtype = shape_.dtype;
  view.head_stride = capacity_ * shape_.head_dim;
  view.slot_stride = shape_.head_dim;
  view.region_offset = offsets.data();
  return view;
}

std::int64_t ContiguousCache::append(Operations& ops, std::int64_t layer, const QkvRows& rows) {
  append_kv(ops, shape_, step_, rows, view(layer));
  std::int64_t heads = 2 * shape_.n_kv_heads;
  if (q_ != nullptr && rows.q != nullptr) {
    const KvView q_view = region_view(*q_, nullptr, layer, shape_.n_heads, q_region_offset_);
    ops.append(rows.q, nullptr, rows.stride, step_, shape_.n_heads, shape_.head_dim, q_view);
    heads += shape_.n_heads;
  }
  return appended_bytes(step_, heads, shape_);
}

KvView ContiguousCache::view(std::int64_t layer) const {
  return region_view(*k_, v_.get(), layer, shape_.n_kv_heads, region_offset_);
}

void ContiguousCache::release(std::int64_t seq) {
  std::int64_t& tokens = tokens_.at(static_cast<std::size_t>(seq));
  if (tokens > 0) --n_live_;
  tokens = 0;
}

KvFootprint ContiguousCache::footprint() const {
  KvFootprint footprint;
  footprint.bytes_per_token = bytes_per_token_;
  for (const std::int64_t tokens : tokens_) footprint.used_bytes += tokens * bytes_per_token_;
  footprint.reserved_bytes = n_live_ * capacity_ * bytes_per_token_;
  footprint.peak_bytes = most_live_ * capacity_ * bytes_per_token_;
  return footprint;
}

}  // namespace kvlab
