// Copies new K and V rows to their places in the cache. Bound by memory; one thread does it.
#include <algorithm>

#include "kernels/cpu/kv_rows.h"
#include "kernels/cpu/rows.h"

namespace kvlab::cpu {
namespace {

void store_row(const float* row, std::int64_t head_dim, const KvView& view, void* base, std::int64_t offset) {
  if (view.dtype == DType::f32) {
    std::copy_n(row, head_dim, static_cast<float*>(base) + offset);
  } else {
    std::transform(row, row + head_dim, static_cast<Bf16*>(base) + offset, bf16_from_float);
  }
}

}  // namespace

void append(const float* k, const float* v, std::int64_t stride, std::span<const SequenceSpan> seqs,
            std::int64_t n_kv_heads, std::int64_t head_dim, const KvView& view) {
  check_view(view, seqs);
  for (std::size_t s = 0; s < seqs.size(); ++s) {
    for (std::int64_t i = 0; i < seqs[s].n_queries; ++i) {
      const std::int64_t pos = seqs[s].kv_len - seqs[s].n_queries + i;
      const std::int64_t row = (seqs[s].first_row + i) * stride;
      for (std::int64_t h = 0; h < n_kv_heads; ++h) {
        const std::int64_t offset = kv_offset(view, static_cast<std::int64_t>(s), h, pos);
        store_row(k + row + h * head_dim, head_dim, view, view.k, offset);
        if (v != nullptr) store_row(v + row + h * head_dim, head_dim, view, view.v, offset);
      }
    }
  }
}

}  // namespace kvlab::cpu
