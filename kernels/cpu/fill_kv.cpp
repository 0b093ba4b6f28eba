// Draws K and V into a cache, for decoding at a depth without a prefill.
#include "kernels/cpu/rows.h"

namespace kvlab::cpu {
namespace {

/// Elements first .. first + head_dim - 1 of `values` go to base + offset.
void draw_row(const RandomValues& values, std::uint64_t first, std::int64_t head_dim, DType dtype, void* base,
              std::int64_t offset) {
  for (std::int64_t i = 0; i < head_dim; ++i) {
    const float value = random_value(values, first + static_cast<std::uint64_t>(i));
    if (dtype == DType::f32) {
      static_cast<float*>(base)[offset + i] = value;
    } else {
      static_cast<Bf16*>(base)[offset + i] = bf16_from_float(value);
    }
  }
}

}  // namespace

void fill_kv(const FillArgs& args, Share share) {
  const ItemRange rows = part_of(args.n_seqs * args.n_kv_heads * args.n_tokens, share);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t pos = row % args.n_tokens;
    const std::int64_t head = row / args.n_tokens % args.n_kv_heads;
    const std::int64_t seq = row / args.n_tokens / args.n_kv_heads;
    const std::uint64_t first = random_kv_row(args.values, seq, head, pos, args.head_dim);
    const std::int64_t offset = kv_offset(args.view, seq, head, pos);
    draw_row(args.values.k, first, args.head_dim, args.view.dtype, args.view.k, offset);
    draw_row(args.values.v, first, args.head_dim, args.view.dtype, args.view.v, offset);
  }
}

}  // namespace kvlab::cpu
