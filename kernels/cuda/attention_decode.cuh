// The body of decode attention on CUDA cores: a block takes its run of the plan, part by part, for up to `heads` query
// heads of a KV head at a time. attention_decode_merge.cuh puts split rows together.
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/attention_decode_layout.cuh"
#include "kernels/cuda/attention_decode_task.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/warp_ops.cuh"

namespace kvlab::cuda {

/// The key that is a lane's i-th of a step.
template <typename T, int dim>
KVLAB_DEVICE std::int32_t decode_key(const DecodeTask& task, int step, int i) {
  using Lanes = DecodeLanes<T, dim>;
  const int row = (warp_id() * Lanes::kKeys + i) * Lanes::kGroupsPerWarp + lane_id() / Lanes::kLanes;
  return task.first_key + step * Lanes::kTile + row;
}

template <typename T, int dim>
KVLAB_DEVICE void find_places(const DecodeParams<T>& params, const DecodeTask& task, int step,
                              DecodePlaces<DecodeLanes<T, dim>::kKeys>& places) {
  const Global<const std::int32_t> row = params.kv.page_table + task.seq * params.kv.pages_per_seq;
  KVLAB_UNROLL
  for (int i = 0; i < DecodeLanes<T, dim>::kKeys; ++i) {
    const std::int32_t key = decode_key<T, dim>(task, step, i);
    const KvSlot at = kv_slot(params.kv, key);
    places.page[i] = load_global_constant_if(params.kv.is_paged() && key < task.end_key, row + at.page, 0);
    places.slot[i] = at.slot;
  }
}

/// Starts the copies of a step, as one group. Chunks past head_dim and keys past the part arrive as zeros, unread.
template <typename T, int dim, int heads>
KVLAB_DEVICE void copy_step(const DecodeParams<T>& params, const DecodeTask& task, int step,
                            const DecodePlaces<DecodeLanes<T, dim>::kKeys>& places,
                            DecodeStorage<T, dim, heads>& shared) {
  using Lanes = DecodeLanes<T, dim>;
  const int stage = step % kDecodeStages;
  KVLAB_UNROLL
  for (int i = 0; i < Lanes::kKeys; ++i) {
    const bool owned = decode_key<T, dim>(task, step, i) < task.end_key;
    const std::int64_t page_start = task.region_start + places.page[i] * params.kv.page_stride;
    const std::int64_t row = kv_row_offset(params.kv, page_start, task.kv_head, places.slot[i]);
    KVLAB_UNROLL
    for (int c = 0; c < Lanes::kChunks; ++c) {
      const int component = Lanes::component(c);
      const int n_bytes = owned && component < params.head_dim ? 16 : 0;
      const int chunk = i * Lanes::kChunks + c;
      copy_async16(shared.ring.at(decode_ring_index(stage, warp_id(), 0, chunk) + lane_id()),
                   params.kv.k + row + component, n_bytes);
      copy_async16(shared.ring.at(decode_ring_index(stage, warp_id(), 1, chunk) + lane_id()),
                   params.kv.v + row + component, n_bytes);
    }
  }
  commit_copies();
}

/// Q of the pass's heads, a lane's components, times the scale; zeros past head_dim and for heads that are not there.
template <typename T, int dim, int heads>
KVLAB_DEVICE void load_query(const DecodeParams<T>& params, const DecodeTask& task,
                             float (&q)[heads][kDecodeLaneComponents]) {
  const Global<const float> rows = params.q + task.query_row * params.q_stride;
  KVLAB_UNROLL
  for (int h = 0; h < heads; ++h) {
    KVLAB_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int component = DecodeLanes<T, dim>::half_component(half);
      const std::int64_t at = static_cast<std::int64_t>(task.first_head + h) * params.head_dim + component;
      const Float4 values =
          load_global_if(h < task.n_heads && component < params.head_dim, (rows + at).template as<Float4>(), Float4{});
      KVLAB_UNROLL
      for (int e = 0; e < 4; ++e) q[h][half * 4 + e] = values[e] * params.scale;
    }
  }
}

/// scores[i * heads + h] = q of head h . key i, for each lane of the group that holds the key.
template <typename T, int dim, int heads>
KVLAB_DEVICE void score_step(int stage, const float (&q)[heads][kDecodeLaneComponents],
                             DecodeStorage<T, dim, heads>& shared,
                             float (&scores)[DecodeLanes<T, dim>::kKeys * heads]) {
  using Lanes = DecodeLanes<T, dim>;
  KVLAB_UNROLL
  for (int i = 0; i < Lanes::kKeys; ++i) {
    KVLAB_UNROLL
    for (int h = 0; h < heads; ++h) scores[i * heads + h] = 0.0F;
    KVLAB_UNROLL
    for (int c = 0; c < Lanes::kChunks; ++c) {
      const int at = decode_ring_index(stage, warp_id(), 0, i * Lanes::kChunks + c) + lane_id();
      const auto k = load_shared(shared.ring.at(at).template as<Vector<T, Lanes::kPerChunk>>());
      KVLAB_UNROLL
      for (int e = 0; e < Lanes::kPerChunk; ++e) {
        KVLAB_UNROLL
        for (int h = 0; h < heads; ++h) scores[i * heads + h] += q[h][c * Lanes::kPerChunk + e] * widened(k[e]);
      }
    }
  }
  group_sum<Lanes::kLanes>(scores);
}

/// Turns scores into weights relative to the new largest score, and rescales what was summed before. A key that is not
/// there weighs nothing, whatever its score.
template <int n_keys, int heads>
KVLAB_DEVICE void weigh_step(const bool (&is_there)[n_keys], float (&scores)[n_keys * heads], DecodeSums<heads>& sums) {
  KVLAB_UNROLL
  for (int h = 0; h < heads; ++h) {
    float largest = sums.largest[h];
    KVLAB_UNROLL
    for (int i = 0; i < n_keys; ++i) {
      const float score = scores[i * heads + h];
      largest = is_there[i] && score > largest ? score : largest;
    }
    const float rescale = exp2_approx(sums.largest[h] - largest);
    sums.largest[h] = largest;
    sums.total[h] *= rescale;
    KVLAB_UNROLL
    for (int e = 0; e < kDecodeLaneComponents; ++e) sums.row[h][e] *= rescale;
    KVLAB_UNROLL
    for (int i = 0; i < n_keys; ++i) {
      const float weight = is_there[i] ? exp2_approx(scores[i * heads + h] - largest) : 0.0F;
      scores[i * heads + h] = weight;
      sums.total[h] += weight;
    }
  }
}

template <typename T, int dim, int heads>
KVLAB_DEVICE void sum_values(int stage, const float (&weights)[DecodeLanes<T, dim>::kKeys * heads],
                             DecodeStorage<T, dim, heads>& shared, DecodeSums<heads>& sums) {
  using Lanes = DecodeLanes<T, dim>;
  KVLAB_UNROLL
  for (int i = 0; i < Lanes::kKeys; ++i) {
    KVLAB_UNROLL
    for (int c = 0; c < Lanes::kChunks; ++c) {
      const int at = decode_ring_index(stage, warp_id(), 1, i * Lanes::kChunks + c) + lane_id();
      const auto v = load_shared(shared.ring.at(at).template as<Vector<T, Lanes::kPerChunk>>());
      KVLAB_UNROLL
      for (int e = 0; e < Lanes::kPerChunk; ++e) {
        KVLAB_UNROLL
        for (int h = 0; h < heads; ++h) {
          sums.row[h][c * Lanes::kPerChunk + e] += weights[i * heads + h] * widened(v[e]);
        }
      }
    }
  }
}

/// Walks the part's keys.
template <typename T, int dim, int heads>
KVLAB_DEVICE void walk_keys(const DecodeParams<T>& params, const DecodeTask& task, DecodeStorage<T, dim, heads>& shared,
                            DecodeSums<heads>& sums) {
  using Lanes = DecodeLanes<T, dim>;
  float q[heads][kDecodeLaneComponents];
  DecodePlaces<Lanes::kKeys> places;
  find_places<T, dim>(params, task, 0, places);
  for (int step = 0; step < kDecodeStages - 1; ++step) {
    copy_step<T, dim, heads>(params, task, step, places, shared);
    find_places<T, dim>(params, task, step + 1, places);
  }
  load_query<T, dim, heads>(params, task, q);
  const int n_steps = (task.end_key - task.first_key + Lanes::kTile - 1) / Lanes::kTile;
  for (int step = 0; step < n_steps; ++step) {
    copy_step<T, dim, heads>(params, task, step + kDecodeStages - 1, places, shared);
    find_places<T, dim>(params, task, step + kDecodeStages, places);
    wait_for_copies<kDecodeStages - 1>();
    const int stage = step % kDecodeStages;
    float scores[Lanes::kKeys * heads];
    score_step<T, dim, heads>(stage, q, shared, scores);
    bool is_there[Lanes::kKeys];
    KVLAB_UNROLL
    for (int i = 0; i < Lanes::kKeys; ++i) is_there[i] = decode_key<T, dim>(task, step, i) < task.end_key;
    weigh_step<Lanes::kKeys, heads>(is_there, scores, sums);
    sum_values<T, dim, heads>(stage, scores, shared, sums);
  }
  wait_for_copies<0>();
}

/// Leaves every lane's sums where the whole block finds them.
template <typename T, int dim, int heads>
KVLAB_DEVICE void share_sums(const DecodeSums<heads>& sums, DecodeStorage<T, dim, heads>& shared) {
  using Lanes = DecodeLanes<T, dim>;
  static_assert(heads * 2 <= 2 * kDecodeLaneChunks, "the rows of a warp fit into its part of one stage");
  const int group = warp_id() * Lanes::kGroupsPerWarp + lane_id() / Lanes::kLanes;
  const bool is_first = lane_id() % Lanes::kLanes == 0;
  warp_barrier();  // other lanes may still read what they copied
  KVLAB_UNROLL
  for (int h = 0; h < heads; ++h) {
    store_shared_if(is_first, shared.largest.at(group * heads + h), sums.largest[h]);
    store_shared_if(is_first, shared.total.at(group * heads + h), sums.total[h]);
    KVLAB_UNROLL
    for (int half = 0; half < 2; ++half) {
      Float4 values;
      KVLAB_UNROLL
      for (int e = 0; e < 4; ++e) values[e] = sums.row[h][half * 4 + e];
      const int place = Lanes::place(lane_id(), Lanes::half_component(half) / 4);
      store_shared(shared.ring.at(decode_ring_index(0, warp_id(), 0, h * 2) + place), values);
    }
  }
  block_barrier();
}

/// The whole block's sums of a head: largest score and sum of weights, and four components of the row.
template <typename T, int dim, int heads>
KVLAB_DEVICE PartSum gather_sums(int head, int block, DecodeStorage<T, dim, heads>& shared, Float4& row) {
  using Lanes = DecodeLanes<T, dim>;
  PartSum sum{{kNoScore, 0.0F}};
  for (int group = 0; group < Lanes::kGroups; ++group) {
    const float largest = load_shared(shared.largest.at(group * heads + head));
    sum[0] = largest > sum[0] ? largest : sum[0];
  }
  row = Float4{};
  for (int group = 0; group < Lanes::kGroups; ++group) {
    const float weight = exp2_approx(load_shared(shared.largest.at(group * heads + head)) - sum[0]);
    sum[1] += weight * load_shared(shared.total.at(group * heads + head));
    const int lane = group % Lanes::kGroupsPerWarp * Lanes::kLanes + Lanes::lane_of(block);
    const int at = decode_ring_index(0, group / Lanes::kGroupsPerWarp, 0, head * 2) + Lanes::place(lane, block);
    const Float4 part = load_shared(shared.ring.at(at));
    KVLAB_UNROLL
    for (int e = 0; e < 4; ++e) row[e] += weight * part[e];
  }
  return sum;
}

template <int heads>
KVLAB_DEVICE void clear_sums(DecodeSums<heads>& sums) {
  KVLAB_UNROLL
  for (int h = 0; h < heads; ++h) {
    sums.largest[h] = kNoScore;
    sums.total[h] = 0.0F;
    KVLAB_UNROLL
    for (int e = 0; e < kDecodeLaneComponents; ++e) sums.row[h][e] = 0.0F;
  }
}

/// Writes the pass's rows.
template <typename T, int dim, int heads>
KVLAB_DEVICE void store_rows(const DecodeParams<T>& params, const DecodeTask& task,
                             DecodeStorage<T, dim, heads>& shared) {
  constexpr int kBlocks = DecodeLanes<T, dim>::kBlocks;
  for (int item = thread_x(); item < heads * kBlocks; item += kDecodeBlock) {
    const int block = item % kBlocks;
    Float4 row;
    const PartSum sum = gather_sums<T, dim, heads>(item / kBlocks, block, shared, row);
    store_part<heads>(params, task, item / kBlocks, block * 4, sum, row);
  }
}

/// Grid: n_workers; block: kDecodeBlock threads; shared: DecodeStorage. T: float or Bf16. head_dim <= dim. Reads the K
/// and V rows of its keys once each, in 16-byte chunks. Writes out where it has all keys of a row, partial rows and
/// sums where not.
template <typename T, int dim, int heads>
KVLAB_KERNEL void KVLAB_LAUNCH_BOUNDS(kDecodeBlock, 3) attention_decode_kernel(DecodeParams<T> params) {
  auto& shared = shared_storage<DecodeStorage<T, dim, heads>>();
  wait_for_previous_launch();
  for_each_task<heads>(params, DecodeLanes<T, dim>::kTile, [&](const DecodeTask& task) {
    DecodeSums<heads> sums;
    clear_sums(sums);
    walk_keys<T, dim, heads>(params, task, shared, sums);
    share_sums<T, dim, heads>(sums, shared);
    store_rows<T, dim, heads>(params, task, shared);
    block_barrier();  // the next part's copies go where these sums stand
  });
}

}  // namespace kvlab::cuda
