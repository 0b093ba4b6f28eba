// The body of prefill attention: a block takes a tile of rows (queries of the heads of one group) and walks the blocks
// of keys that some of them see; scores, weights and sums stay in registers. attention_prefill_copies.cuh brings the
// operands.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/attention_prefill_copies.cuh"
#include "kernels/cuda/attention_prefill_layout.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/warp_ops.cuh"

namespace kvlab::cuda {

/// scores = q k^T for the warp's rows and a stage's keys.
template <typename Tile>
KVLAB_DEVICE void score_keys(int stage, PrefillStorage<Tile>& shared, PrefillScores<Tile>& scores) {
  using Places = Swizzle<Tile::kDim>;
  const int lane = lane_id();
  const int q_place = Places::place(warp_id() * Tile::kWarpRows + lane % 16, lane / 16);
  const int k_place = Places::place(lane / 16 * 8 + lane % 8, lane / 8 % 2);
  KVLAB_UNROLL
  for (int b = 0; b < Tile::kRowBlocks; ++b) {
    KVLAB_UNROLL
    for (int n = 0; n < Tile::kKeys / 8; ++n) {
      KVLAB_UNROLL
      for (int i = 0; i < 4; ++i) scores[b][n][i] = 0.0F;
    }
  }
  KVLAB_UNROLL
  for (int step = 0; step < Tile::kDim / 16; ++step) {
    std::uint32_t q[Tile::kRowBlocks][4];
    KVLAB_UNROLL
    for (int b = 0; b < Tile::kRowBlocks; ++b) {
      load_matrix_x4(q[b], shared.q.at(Places::stepped(q_place, b * 16, step)));
    }
    KVLAB_UNROLL
    for (int n = 0; n < Tile::kKeys / 16; ++n) {
      std::uint32_t k[4];
      load_matrix_x4(k, shared.k.at(Places::stepped(k_place, stage * Tile::kKeys + n * 16, step)));
      const std::uint32_t lower[2] = {k[0], k[1]};
      const std::uint32_t upper[2] = {k[2], k[3]};
      KVLAB_UNROLL
      for (int b = 0; b < Tile::kRowBlocks; ++b) {
        multiply_accumulate<Bf16>(scores[b][2 * n], q[b], lower);
        multiply_accumulate<Bf16>(scores[b][2 * n + 1], q[b], upper);
      }
    }
  }
}

/// Hides the keys that a row does not see: -inf.
template <typename Tile>
KVLAB_DEVICE void mask_scores(const PrefillTask& task, int first_key, PrefillScores<Tile>& scores) {
  const int first_row = task.first_row + warp_id() * Tile::kWarpRows + lane_id() / 4;
  KVLAB_UNROLL
  for (int slot = 0; slot < 2 * Tile::kRowBlocks; ++slot) {
    const int position = task.mask.position(first_row + slot * 8);
    const int first_seen = task.mask.first_key(position);
    KVLAB_UNROLL
    for (int n = 0; n < Tile::kKeys / 8; ++n) {
      KVLAB_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int key = first_key + n * 8 + lane_id() % 4 * 2 + i;
        float& score = scores[slot / 2][n][slot % 2 * 2 + i];
        score = key >= first_seen && key <= position ? score : -INFINITY;
      }
    }
  }
}

/// Raises the rows' largest scores to those of this block of keys, and rescales what was summed before. Where no row of
/// the warp has a new largest score, all factors would be 1.
template <typename Tile>
KVLAB_DEVICE void raise_largest(float scale, const PrefillScores<Tile>& scores, PrefillSums<Tile>& sums) {
  constexpr int kSlots = PrefillSums<Tile>::kSlots;
  float largest[kSlots];
  KVLAB_UNROLL
  for (int slot = 0; slot < kSlots; ++slot) {
    largest[slot] = -INFINITY;
    KVLAB_UNROLL
    for (int n = 0; n < Tile::kKeys / 8; ++n) {
      KVLAB_UNROLL
      for (int i = 0; i < 2; ++i) largest[slot] = fmaxf(largest[slot], scores[slot / 2][n][slot % 2 * 2 + i]);
    }
  }
  group_max<4>(largest);
  bool is_raised = false;
  KVLAB_UNROLL
  for (int slot = 0; slot < kSlots; ++slot) {
    largest[slot] = fmaxf(sums.largest[slot], largest[slot] * scale);
    is_raised = is_raised || largest[slot] > sums.largest[slot];
  }
  if (!any_lane(is_raised)) return;
  KVLAB_UNROLL
  for (int slot = 0; slot < kSlots; ++slot) {
    const bool is_first = sums.largest[slot] == -INFINITY;  // nothing was summed: no difference of infinities
    const float factor = is_first ? 0.0F : exp2_approx(sums.largest[slot] - largest[slot]);
    sums.largest[slot] = largest[slot];
    sums.total[slot] *= factor;
    KVLAB_UNROLL
    for (int n = 0; n < Tile::kDim / 8; ++n) {
      KVLAB_UNROLL
      for (int i = 0; i < 2; ++i) sums.row[slot / 2][n][slot % 2 * 2 + i] *= factor;
    }
  }
}

/// Turns scores into weights relative to the largest score: f32 into the totals, bf16 into the operands of the next
/// product, which need no exchange between lanes.
template <typename Tile>
KVLAB_DEVICE void weigh_keys(float scale, const PrefillScores<Tile>& scores, PrefillSums<Tile>& sums,
                             PrefillWeights<Tile>& weights) {
  KVLAB_UNROLL
  for (int slot = 0; slot < PrefillSums<Tile>::kSlots; ++slot) {
    const float base = sums.largest[slot] == -INFINITY ? 0.0F : sums.largest[slot];
    KVLAB_UNROLL
    for (int n = 0; n < Tile::kKeys / 8; ++n) {
      const float first = exp2_approx(scores[slot / 2][n][slot % 2 * 2] * scale - base);
      const float second = exp2_approx(scores[slot / 2][n][slot % 2 * 2 + 1] * scale - base);
      sums.total[slot] += first;
      sums.total[slot] += second;
      weights[slot / 2][n / 2][n % 2 * 2 + slot % 2] = pack_bf16(first, second);
    }
  }
}

/// sums.row += weights v.
template <typename Tile>
KVLAB_DEVICE void sum_values(int stage, const PrefillWeights<Tile>& weights, PrefillStorage<Tile>& shared,
                             PrefillSums<Tile>& sums) {
  using Places = Swizzle<Tile::kDim>;
  const int place = Places::place(lane_id() % 16, lane_id() / 16);
  KVLAB_UNROLL
  for (int step = 0; step < Tile::kKeys / 16; ++step) {
    KVLAB_UNROLL
    for (int n = 0; n < Tile::kDim / 16; ++n) {
      std::uint32_t v[4];
      load_matrix_transposed_x4(v, shared.v.at(Places::stepped(place, stage * Tile::kKeys + step * 16, n)));
      const std::uint32_t lower[2] = {v[0], v[1]};
      const std::uint32_t upper[2] = {v[2], v[3]};
      KVLAB_UNROLL
      for (int b = 0; b < Tile::kRowBlocks; ++b) {
        multiply_accumulate<Bf16>(sums.row[b][2 * n], weights[b][step], lower);
        multiply_accumulate<Bf16>(sums.row[b][2 * n + 1], weights[b][step], upper);
      }
    }
  }
}

/// One block of keys for the warp's rows, which start at `row`.
template <typename Tile>
KVLAB_DEVICE void attend(const PrefillParams& params, const PrefillTask& task, int row, int block,
                         PrefillStorage<Tile>& shared, PrefillSums<Tile>& sums) {
  const int first_key = block * Tile::kKeys;
  PrefillScores<Tile> scores;
  score_keys<Tile>(block % 2, shared, scores);
  if (!task.mask.all_see(row, row + Tile::kWarpRows, {first_key, first_key + Tile::kKeys})) {
    mask_scores<Tile>(task, first_key, scores);
  }
  raise_largest<Tile>(params.scale, scores, sums);
  PrefillWeights<Tile> weights;
  weigh_keys<Tile>(params.scale, scores, sums, weights);
  sum_values<Tile>(block % 2, weights, shared, sums);
}

/// Walks the tile's keys: while a block of them is at work, the next is on its way and the places of the one after are
/// looked up. A warp passes by the blocks of which its own rows see nothing.
template <typename Tile>
KVLAB_DEVICE void walk_keys(const PrefillParams& params, const PrefillTask& task, PrefillStorage<Tile>& shared,
                            PrefillSums<Tile>& sums) {
  const int row = task.first_row + warp_id() * Tile::kWarpRows;
  const KeyRange walked = key_blocks(task.mask.keys_of(row, row + Tile::kWarpRows), Tile::kKeys);
  for (int block = task.blocks.begin; block < task.blocks.begin + 2; ++block) {
    find_keys<Tile>(params, task, block, shared);
  }
  block_barrier();
  copy_keys<Tile>(params, task, task.blocks.begin, shared);
  load_queries<Tile>(params, task, shared);
  for (int block = task.blocks.begin; block < task.blocks.end; ++block) {
    wait_for_copies<0>();
    block_barrier();  // this block has arrived for all; all have left the one before
    if (block + 1 < task.blocks.end) copy_keys<Tile>(params, task, block + 1, shared);
    find_keys<Tile>(params, task, block + 2, shared);
    if (block >= walked.begin && block < walked.end) attend<Tile>(params, task, row, block, shared, sums);
  }
}

/// Divides by the totals and writes the rows that are there.
template <typename Tile>
KVLAB_DEVICE void store_rows(const PrefillParams& params, const PrefillTask& task, PrefillSums<Tile>& sums) {
  using Float2 = Vector<float, 2>;
  group_sum<4>(sums.total);
  const std::int64_t step_row = first_step_row(params, task);
  KVLAB_UNROLL
  for (int slot = 0; slot < PrefillSums<Tile>::kSlots; ++slot) {
    const int item = task.first_row + warp_id() * Tile::kWarpRows + slot * 8 + lane_id() / 4;
    const std::int64_t query = item / params.group;
    const std::int64_t head = task.kv_head * params.group + item % params.group;
    const Global<float> row = params.out + ((step_row + query) * params.out_stride + head * params.head_dim);
    const float factor = sums.total[slot] == 0.0F ? 0.0F : 1.0F / sums.total[slot];
    KVLAB_UNROLL
    for (int n = 0; n < Tile::kDim / 8; ++n) {
      const int component = n * 8 + lane_id() % 4 * 2;
      const Float2 values{sums.row[slot / 2][n][slot % 2 * 2] * factor,
                          sums.row[slot / 2][n][slot % 2 * 2 + 1] * factor};
      store_global_if(item < task.mask.n_rows() && component < params.head_dim, (row + component).template as<Float2>(),
                      values);
    }
  }
}

/// Blocks along z count a sequence's tiles from its last, which sees the most keys, so that the longest work starts
/// first; a sequence with fewer tiles has none for the last blocks.
template <typename Tile>
KVLAB_DEVICE PrefillTask prefill_task(const PrefillParams& params) {
  static_assert(sizeof(SequenceSpan) == 3 * sizeof(std::int64_t));
  PrefillTask task;
  task.kv_head = block_x();
  task.seq = block_y();
  const Global<const std::int64_t> span = (params.seqs + task.seq).template as<std::int64_t>();
  task.mask.n_queries = static_cast<std::int32_t>(load_global_constant(span + 1));
  task.mask.kv_len = static_cast<std::int32_t>(load_global_constant(span + 2));
  task.mask.group = params.group;
  task.mask.window = params.window;
  const int n_tiles = (task.mask.n_rows() + Tile::kRows - 1) / Tile::kRows;
  task.first_row = (n_tiles - 1 - block_z()) * Tile::kRows;
  task.keys = task.mask.keys_of(task.first_row, task.first_row + Tile::kRows);
  task.blocks = key_blocks(task.keys, Tile::kKeys);
  return task;
}

/// Grid: n_kv_heads x n_seqs x tiles of the longest sequence; block: Tile::kThreads threads; shared: PrefillStorage.
/// head_dim <= Tile::kDim. Reads Q once, and the K and V rows that some row of the tile sees once each, in 16-byte
/// chunks; writes out once.
template <typename Tile>
KVLAB_KERNEL void KVLAB_LAUNCH_BOUNDS(Tile::kThreads, 8 / Tile::kWarps) attention_prefill_kernel(PrefillParams params) {
  auto& shared = shared_storage<PrefillStorage<Tile>>();
  wait_for_previous_launch();
  const PrefillTask task = prefill_task<Tile>(params);
  if (task.first_row < 0) return;
  PrefillSums<Tile> sums;
  clear_sums<Tile>(sums);
  if (task.blocks.begin < task.blocks.end) walk_keys<Tile>(params, task, shared, sums);
  store_rows<Tile>(params, task, sums);
}

}  // namespace kvlab::cuda
