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

void append(const AppendArgs& args) {
  check_view(args.view, args.seqs);
  for (std::size_t s = 0; s < args.seqs.size(); ++s) {
    const SequenceSpan& span = args.seqs[s];
    for (std::int64_t i = 0; i < span.n_queries; ++i) {
      const std::int64_t pos = span.kv_len - span.n_queries + i;
      const std::int64_t row = (span.first_row + i) * args.stride;
      for (std::int64_t h = 0; h < args.n_kv_heads; ++h) {
        const std::int64_t offset = kv_offset(args.view, static_cast<std::int64_t>(s), h, pos);
        const std::int64_t head = row + h * args.head_dim;
        store_row(args.k + head, args.head_dim, args.view, args.view.k, offset);
        if (args.v != nullptr) store_row(args.v + head, args.head_dim, args.view, args.view.v, offset);
      }
    }
  }
}

}  // namespace kvlab::cpu
