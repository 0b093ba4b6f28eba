// Operations that move, make or rescale whole rows: lookup, gathering, norms, rotation, appending to a cache, filling
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cpu/share.h"
#include "kernels/operations.h"

namespace kvlab::cpu {

/// A row-major table [n_rows, width] for lookups.
std::unique_ptr<PackedMatrix> pack_table(const HostMatrix& table, DType storage);
/// Throws std::invalid_argument when `table` does not come from pack_table.
void check_table(const PackedMatrix& table);
/// out[i, :] (+)= table[ids[i], :]. `table` passes check_table; out [n_ids, width], dense.
void embed(const PackedMatrix& table, std::span<const std::int32_t> ids, float* out, bool accumulate);

/// dst[i, :] = src[rows[i], :], width columns.
void gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> rows, std::int64_t width,
                 float* dst, std::int64_t dst_stride);

/// A matrix of f32 rows that an operation reads or writes: [n_rows, width], rows `stride` apart.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;
};

/// Norms and rotation compute the rows of `share`.
/// y = x / rms(x) * weight. x, y [n_rows, width]; weight [width].
void rms_norm(Rows<const float> x, std::int64_t n_rows, std::int64_t width, const float* weight, float eps,
              Rows<float> y, Share share);
/// y = (x - mean) / sqrt(var + eps) * weight + bias. x, y [n_rows, width]; weight, bias [width].
void layer_norm(Rows<const float> x, std::int64_t n_rows, std::int64_t width, const float* weight, const float* bias,
                float eps, Rows<float> y, Share share);

/// Rotates pairs (i, i + head_dim/2) in place. x [n_rows, n_heads * head_dim]; positions [n_rows]; cos_sin
/// [n_positions, head_dim].
void rope(Rows<float> x, std::int64_t n_rows, std::int64_t n_heads, std::int64_t head_dim,
          const std::int32_t* positions, const float* cos_sin, Share share);

struct AppendArgs {
  const float* k;  // [n_rows, n_kv_heads * head_dim], rows `stride` apart
  const float* v;  // likewise; null: only the K side is written
  std::int64_t stride;
  std::span<const SequenceSpan> seqs;
  std::int64_t n_kv_heads;
  std::int64_t head_dim;
  KvView view;
};
/// Writes rows into the cache, rounding to its dtype. Throws std::invalid_argument when a sequence is longer than its
/// row of the page table.
void append(const AppendArgs& args);

struct FillArgs {
  RandomKv values;
  std::int64_t n_seqs;
  std::int64_t n_tokens;  // positions 0 .. n_tokens - 1 of each sequence
  std::int64_t n_kv_heads;
  std::int64_t head_dim;
  KvView view;
};
/// Draws K and V rows into the cache, rounding to its dtype.
void fill_kv(const FillArgs& args, Share share);

}  // namespace kvlab::cpu
