// How prefill attention brings Q, K and V into shared memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/attention_prefill_layout.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

/// Looks up where the rows of a block of keys stand, one thread a key; keys that are not to be read give one that is.
template <typename Tile>
KVLAB_DEVICE void find_keys(const PrefillParams& params, const PrefillTask& task, int block,
                            PrefillStorage<Tile>& shared) {
  static_assert(Tile::kKeys <= Tile::kThreads);
  if (thread_x() >= Tile::kKeys) return;
  int key = block * Tile::kKeys + thread_x();
  key = key < task.keys.begin ? task.keys.begin : key;
  key = key < task.keys.end ? key : task.keys.end - 1;
  const KvSlot at = kv_slot(params.kv, key);
  const std::int64_t page_start = kv_page_start(params.kv, task.seq, at.page);
  store_shared(shared.key_starts.at(block % 2 * Tile::kKeys + thread_x()),
               kv_row_offset(params.kv, page_start, task.kv_head, at.slot));
}

/// Starts the copies of a block of keys. Keys that no row sees and components past head_dim arrive as zeros, unread.
template <typename Tile>
KVLAB_DEVICE void copy_keys(const PrefillParams& params, const PrefillTask& task, int block,
                            PrefillStorage<Tile>& shared) {
  using Places = Swizzle<Tile::kDim>;
  constexpr int kRowsAtOnce = Tile::kThreads / Places::kGroup;
  static_assert(Tile::kKeys % kRowsAtOnce == 0 && kRowsAtOnce % 8 == 0);
  const int stage = block % 2 * Tile::kKeys;
  const int chunk = thread_x() % Places::kGroup;
  const int place = Places::place(thread_x() / Places::kGroup, chunk);
  KVLAB_UNROLL
  for (int pass = 0; pass < Tile::kKeys / kRowsAtOnce; ++pass) {
    const int row = pass * kRowsAtOnce + thread_x() / Places::kGroup;
    const int key = block * Tile::kKeys + row;
    const bool is_seen = key >= task.keys.begin && key < task.keys.end;
    const std::int64_t from = load_shared(shared.key_starts.at(stage + row)) + chunk * 8;
    KVLAB_UNROLL
    for (int group = 0; group < Places::kChunks / Places::kGroup; ++group) {
      const int right = group * Places::kGroup * 8;
      const int n_bytes = is_seen && chunk * 8 + right < params.head_dim ? 16 : 0;
      const int to = Places::moved(place, stage + pass * kRowsAtOnce, group);
      copy_async16(shared.k.at(to), params.kv.k + from + right, n_bytes);
      copy_async16(shared.v.at(to), params.kv.v + from + right, n_bytes);
    }
  }
  commit_copies();
}

/// Rounds the tile's rows of Q to bf16; rows that are not there and components past head_dim are zeros.
template <typename Tile>
KVLAB_DEVICE void load_queries(const PrefillParams& params, const PrefillTask& task, PrefillStorage<Tile>& shared) {
  constexpr int kQuads = Tile::kDim / 4;
  const std::int64_t step_row = first_step_row(params, task);
  using Float4 = Vector<float, 4>;
  for (int index = thread_x(); index < Tile::kRows * kQuads; index += Tile::kThreads) {
    const int row = index / kQuads;
    const int component = index % kQuads * 4;
    const int item = task.first_row + row;
    const std::int64_t query = item / params.group;
    const std::int64_t head = task.kv_head * params.group + item % params.group;
    const bool is_read = item < task.mask.n_rows() && component < params.head_dim;
    const Global<const float> from =
        params.q + ((step_row + query) * params.q_stride + head * params.head_dim + component);
    const Float4 values = load_global_if(is_read, from.template as<Float4>(), Float4{});
    const Vector<std::uint32_t, 2> packed{pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3])};
    const int to = Swizzle<Tile::kDim>::place(row, component / 8) + component % 8;
    store_shared(shared.q.at(to).template as<Vector<std::uint32_t, 2>>(), packed);
  }
}

}  // namespace kvlab::cuda
