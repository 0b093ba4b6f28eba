// What every cache policy offers: reserve, append, view, release, cost. The transformer and the attention know no more.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/operations.h"
#include "kernels/views.h"
#include "variants/variant.h"

namespace kvlab {

/// The shape of a cache: one for all layers.
struct KvShape {
  std::int64_t n_layers = 0;
  std::int64_t n_heads = 0;  // query heads: only the qkv policy stores them
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  DType dtype = DType::f32;
};

/// Bytes of K and V (and Q, where kept) that one token takes in all layers. 0 for `none`.
std::int64_t kv_bytes_per_token(CacheKind cache, const KvShape& shape);

/// Bytes of the rows that a step appends in one layer, `heads` vectors of head_dim each.
std::int64_t appended_bytes(std::span<const SequenceSpan> seqs, std::int64_t heads, const KvShape& shape);

struct KvFootprint {
  std::int64_t bytes_per_token = 0;
  std::int64_t used_bytes = 0;      // tokens held x bytes per token
  std::int64_t reserved_bytes = 0;  // set aside for the live sequences: regions, or pages handed out
  std::int64_t table_bytes = 0;     // page tables
  std::int64_t peak_bytes = 0;      // the most that was set aside at one time, page tables included
};

/// What Q and K of a step's rows still lack, for a backend that rotates while it appends.
struct PendingRotation {
  std::int64_t n_heads = 0;
  std::span<const std::int32_t> positions;  // [n_rows]
  const float* cos_sin = nullptr;           // as for Operations::rope; null: nothing is lacking
};

/// Q, K and V rows of a step: [n_rows, heads * head_dim] each, rows `stride` apart.
struct QkvRows {
  float* q;
  const float* k;  // q + n_heads * head_dim where a rotation is pending
  const float* v;  // the same, behind k
  std::int64_t stride;
  PendingRotation rotation = {};
};

/// Puts K and V of a step into `view`, rotated where that is pending, and leaves Q rotated.
void append_kv(Operations& ops, const KvShape& shape, std::span<const SequenceSpan> seqs, const QkvRows& rows,
               const KvView& view);

class KvCache {
 public:
  virtual ~KvCache() = default;
  /// False when nothing outlives the step, so that each step must bring every token again.
  virtual bool keeps_tokens() const = 0;
  /// Makes room for `n_tokens` in all of sequence `seq`; throws InputError with both numbers when it does not fit.
  virtual void reserve(std::int64_t seq, std::int64_t n_tokens) = 0;
  /// Starts a step over `seqs` (in batch order; `ids[i]` is the cache's sequence number of seqs[i]).
  virtual void begin_step(std::span<const SequenceSpan> seqs, std::span<const std::int64_t> ids) = 0;
  /// Stores the step's rows of one layer and returns the bytes written. `rows.q` is null when Q was not computed for
  /// all rows. Only a policy that keeps tokens takes rows whose rotation is pending.
  virtual std::int64_t append(Operations& ops, std::int64_t layer, const QkvRows& rows) = 0;
  /// K and V of one layer in the batch order of begin_step. Valid until the next begin_step; over steps of as many
  /// sequences, and (without a cache) of as many rows, the view and the spans that append hands to operations stay the
  /// same and only what they point to changes, so that a recorded graph can be run again.
  virtual KvView view(std::int64_t layer) const = 0;
  /// Forgets a sequence; its memory may serve another.
  virtual void release(std::int64_t seq) = 0;
  virtual KvFootprint footprint() const = 0;
};

/// A cache for `n_seqs` sequences of up to `capacity` tokens. `seed` shuffles the order in which pages are handed out.
std::unique_ptr<KvCache> make_cache(const Variant& variant, const KvShape& shape, std::int64_t n_seqs,
                                    std::int64_t capacity, Operations& ops, std::uint64_t seed = 1);

}  // namespace kvlab
