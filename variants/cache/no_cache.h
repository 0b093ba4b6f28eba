// cache=none: K and V of the pass are read where the projection left them; nothing outlives the step.
#pragma once

#include <vector>

#include "variants/cache/kv_cache.h"

namespace kvlab {

class NoCache : public KvCache {
 public:
  NoCache(const KvShape& shape, std::int64_t n_seqs, std::int64_t capacity);

  bool keeps_tokens() const override { return false; }
  void reserve(std::int64_t seq, std::int64_t n_tokens) override;
  void begin_step(std::span<const SequenceSpan> seqs, std::span<const std::int64_t> ids) override;
  std::int64_t append(Operations& ops, std::int64_t layer, const QkvRows& rows) override;
  KvView view(std::int64_t layer) const override;
  void release(std::int64_t /*seq*/) override {}
  KvFootprint footprint() const override { return {}; }

 private:
  KvShape shape_;
  std::int64_t capacity_;
  QkvRows rows_{};                           // of the layer appended last
  std::vector<std::int64_t> first_row_;      // [n_seqs of the step]
  std::vector<std::int64_t> region_offset_;  // [n_seqs of the step] elements
};

}  // namespace kvlab
