#include "variants/cache/no_cache.h"

#include <fmt/format.h>

#include <stdexcept>

#include "kernels/error.h"

namespace kvlab {

NoCache::NoCache(const KvShape& shape, std::int64_t n_seqs, std::int64_t capacity)
    : shape_(shape), capacity_(capacity) {
  first_row_.reserve(static_cast<std::size_t>(n_seqs));
  region_offset_.reserve(static_cast<std::size_t>(n_seqs));
}

void NoCache::reserve(std::int64_t seq, std::int64_t n_tokens) {
  if (n_tokens > capacity_) {
    throw InputError(fmt::format("sequence {} needs {} tokens, the capacity is {}", seq, n_tokens, capacity_));
  }
}

void NoCache::begin_step(std::span<const SequenceSpan> seqs, std::span<const std::int64_t> /*ids*/) {
  first_row_.clear();
  for (const SequenceSpan& seq : seqs) {
    if (seq.n_queries != seq.kv_len) throw std::logic_error("without a cache a step brings every token of a sequence");
    first_row_.push_back(seq.first_row);
  }
}

std::int64_t NoCache::append(Operations& /*ops*/, std::int64_t /*layer*/, const QkvRows& rows) {
  rows_ = rows;
  region_offset_.clear();
  for (const std::int64_t row : first_row_) region_offset_.push_back(row * rows.stride);
  return 0;
}

KvView NoCache::view(std::int64_t /*layer*/) const {
  KvView view;
  view.k = const_cast<float*>(rows_.k);
  view.v = const_cast<float*>(rows_.v);
  view.dtype = DType::f32;
  view.head_stride = shape_.head_dim;
  view.slot_stride = rows_.stride;
  view.region_offset = region_offset_.data();
  return view;
}

}  // namespace kvlab
