// cache=contiguous: one region of `capacity` slots a sequence, set aside up front.
// cache=qkv: the same with Q kept beside K and V; nothing ever reads it back (SPEC S18).
#pragma once

#include <memory>
#include <vector>

#include "variants/cache/kv_cache.h"

namespace kvlab {

class ContiguousCache : public KvCache {
 public:
  ContiguousCache(const KvShape& shape, std::int64_t n_seqs, std::int64_t capacity, Operations& ops, bool keep_q);

  bool keeps_tokens() const override { return true; }
  void reserve(std::int64_t seq, std::int64_t n_tokens) override;
  void begin_step(std::span<const SequenceSpan> seqs, std::span<const std::int64_t> ids) override;
  std::int64_t append(Operations& ops, std::int64_t layer, const QkvRows& rows) override;
  KvView view(std::int64_t layer) const override;
  void release(std::int64_t seq) override;
  KvFootprint footprint() const override;

 private:
  // A view on [n_seqs, n_heads, capacity, head_dim] of one layer.
  KvView region_view(Buffer& k, Buffer* v, std::int64_t layer, std::int64_t n_heads,
                     const std::vector<std::int64_t>& offsets) const;

  KvShape shape_;
  std::int64_t n_seqs_;
  std::int64_t capacity_;
  std::int64_t bytes_per_token_;
  std::unique_ptr<Buffer> k_;         // [n_layers, n_seqs, n_kv_heads, capacity, head_dim]
  std::unique_ptr<Buffer> v_;         // the same
  std::unique_ptr<Buffer> q_;         // [n_layers, n_seqs, n_heads, capacity, head_dim], or null
  std::vector<std::int64_t> tokens_;  // [n_seqs] reserved for so far; 0: not live
  std::int64_t n_live_ = 0;
  std::int64_t most_live_ = 0;
  std::vector<SequenceSpan> step_;             // the step's sequences
  std::vector<std::int64_t> region_offset_;    // [n_seqs of the step] into k_ and v_ of a layer
  std::vector<std::int64_t> q_region_offset_;  // [n_seqs of the step] into q_ of a layer
};

}  // namespace kvlab
