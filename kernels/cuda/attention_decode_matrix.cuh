// The body of decode attention on tensor cores, for bf16 K and V: a block takes its run of the plan, part by part. The
// query heads of a KV head, up to 16, are the rows of one operand, so that K and V pass by once for all of them.
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/attention_decode_matrix_layout.cuh"
#include "kernels/cuda/attention_decode_task.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/warp_ops.cuh"

namespace kvlab::cuda {

/// The first key of this warp in a step.
template <int dim>
KVLAB_DEVICE std::int32_t warp_first_key(const DecodeTask& task, int step) {
  using Tiles = MatrixDecodeTiles<dim>;
  return task.first_key + step * Tiles::kTile + warp_id() * Tiles::kWarpKeys;
}

/// Lane i looks up key i of its warp.
template <int dim>
KVLAB_DEVICE KeyPlace find_key(const DecodeParams<Bf16>& params, const DecodeTask& task, int step) {
  const std::int32_t key = warp_first_key<dim>(task, step) + lane_id();
  const bool is_there = lane_id() < MatrixDecodeTiles<dim>::kWarpKeys && key < task.end_key;
  const KvSlot at = kv_slot(params.kv, key);
  const Global<const std::int32_t> entry = params.kv.page_table + (task.seq * params.kv.pages_per_seq + at.page);
  return {load_global_constant_if(params.kv.is_paged() && is_there, entry, 0), at.slot};
}

/// Starts the copies of a step, as one group. Chunks past head_dim and keys past the part arrive as zeros, unread.
template <int dim>
KVLAB_DEVICE void copy_keys(const DecodeParams<Bf16>& params, const DecodeTask& task, int step, const KeyPlace& place,
                            MatrixDecodeStorage<dim>& shared) {
  using Tiles = MatrixDecodeTiles<dim>;
  const std::int64_t mine =
      kv_row_offset(params.kv, task.region_start + place.page * params.kv.page_stride, task.kv_head, place.slot);
  const std::int32_t n_there = task.end_key - warp_first_key<dim>(task, step);
  KVLAB_NO_UNROLL  // unrolled as a whole, it would cost the widest instance its registers
      for (int first = 0; first < Tiles::kCopies; first += Tiles::kCopiesAtOnce) {
    KVLAB_UNROLL
    for (int i = 0; i < Tiles::kCopiesAtOnce; ++i) {
      const int item = (first + i) * kWarpSize + lane_id();
      const int key = item / Tiles::kChunks;
      const int chunk = item % Tiles::kChunks;
      const std::int64_t from = shuffle(mine, key) + chunk * 8;
      const int n_bytes = key < n_there && chunk * 8 < params.head_dim ? 16 : 0;
      copy_async16(shared.stage(step, 0) + Tiles::place(key, chunk), params.kv.k + from, n_bytes);
      copy_async16(shared.stage(step, 1) + Tiles::place(key, chunk), params.kv.v + from, n_bytes);
    }
  }
  commit_copies();
}

/// Brings the pass's rows of Q into shared memory, rounded to bf16; zeros past head_dim and for heads that are not
/// there. The block's barrier is the caller's.
template <int dim>
KVLAB_DEVICE void load_queries(const DecodeParams<Bf16>& params, const DecodeTask& task,
                               MatrixDecodeStorage<dim>& shared) {
  using Tiles = MatrixDecodeTiles<dim>;
  const Global<const float> rows = params.q + task.query_row * params.q_stride;
  for (int item = thread_x(); item < kMatrixHeads * dim / 4; item += Tiles::kBlock) {
    const int head = item / (dim / 4);
    const int quarter = item % (dim / 4);  // four components: half of a chunk
    const bool is_inside = head < task.n_heads && quarter * 4 < params.head_dim;
    const std::int64_t at = static_cast<std::int64_t>(task.first_head + head) * params.head_dim + quarter * 4;
    const Float4 q = load_global_if(is_inside, (rows + at).template as<Float4>(), Float4{});
    const Vector<std::uint32_t, 2> packed{{pack_bf16(q[0], q[1]), pack_bf16(q[2], q[3])}};
    const auto chunk = shared.query.at(Tiles::place(head, quarter / 2)).template as<Vector<std::uint32_t, 2>>();
    store_shared(chunk + quarter % 2, packed);
  }
}

/// scores[n] = q k^T for 16 heads and keys 8 n .. 8 n + 7 of this warp's step.
template <int dim>
KVLAB_DEVICE void score_keys(int step, MatrixDecodeStorage<dim>& shared,
                             float (&scores)[MatrixDecodeTiles<dim>::kWarpKeys / 8][4]) {
  using Tiles = MatrixDecodeTiles<dim>;
  const Shared<Bf16x8> keys = shared.stage(step, 0);
  KVLAB_UNROLL
  for (int n = 0; n < Tiles::kWarpKeys / 8; ++n) {
    KVLAB_UNROLL
    for (int e = 0; e < 4; ++e) scores[n][e] = 0.0F;
  }
  KVLAB_UNROLL
  for (int k = 0; k < dim / 16; ++k) {
    std::uint32_t q[4];
    load_matrix_x4(q, shared.query.at(Tiles::place(lane_id() % 16, 2 * k + lane_id() / 16)).template as<Bf16>());
    KVLAB_UNROLL
    for (int n = 0; n < Tiles::kWarpKeys / 8; n += 2) {
      const int key = n * 8 + lane_id() / 16 * 8 + lane_id() % 8;
      std::uint32_t both[4];
      load_matrix_x4(both, (keys + Tiles::place(key, 2 * k + lane_id() / 8 % 2)).template as<Bf16>());
      multiply_accumulate<Bf16>(scores[n], q, {both[0], both[1]});
      multiply_accumulate<Bf16>(scores[n + 1], q, {both[2], both[3]});
    }
  }
}

/// Turns scores into weights relative to the new largest score, rounded to bf16 as the next product wants them, and
/// rescales what was summed before. `n_there` keys of the step weigh something, whatever their score; no other does.
template <int dim>
KVLAB_DEVICE void weigh_keys(float scale, std::int32_t n_there,
                             float (&scores)[MatrixDecodeTiles<dim>::kWarpKeys / 8][4], MatrixDecodeSums<dim>& sums,
                             std::uint32_t (&weights)[MatrixDecodeTiles<dim>::kWarpKeys / 8][2]) {
  constexpr int kParts = MatrixDecodeTiles<dim>::kWarpKeys / 8;
  const auto is_there = [&](int n, int e) { return n * 8 + lane_id() % 4 * 2 + e % 2 < n_there; };
  float largest[2] = {sums.largest[0], sums.largest[1]};
  KVLAB_UNROLL
  for (int n = 0; n < kParts; ++n) {
    KVLAB_UNROLL
    for (int e = 0; e < 4; ++e) {
      scores[n][e] *= scale;
      largest[e / 2] = is_there(n, e) && scores[n][e] > largest[e / 2] ? scores[n][e] : largest[e / 2];
    }
  }
  group_max<4>(largest);
  KVLAB_UNROLL
  for (int h = 0; h < 2; ++h) {
    const float rescale = exp2_approx(sums.largest[h] - largest[h]);
    sums.largest[h] = largest[h];
    sums.total[h] *= rescale;
    KVLAB_UNROLL
    for (int n = 0; n < dim / 8; ++n) {
      sums.row[n][2 * h] *= rescale;
      sums.row[n][2 * h + 1] *= rescale;
    }
    KVLAB_UNROLL
    for (int n = 0; n < kParts; ++n) {
      const float low = is_there(n, 0) ? exp2_approx(scores[n][2 * h] - largest[h]) : 0.0F;
      const float high = is_there(n, 1) ? exp2_approx(scores[n][2 * h + 1] - largest[h]) : 0.0F;
      weights[n][h] = pack_bf16(low, high);
      sums.total[h] += float_from_bits(weights[n][h] << 16) + float_from_bits(weights[n][h] & 0xFFFF0000U);
    }
  }
}

/// Adds the step's rows of V, weighted.
template <int dim>
KVLAB_DEVICE void add_values(int step, const std::uint32_t (&weights)[MatrixDecodeTiles<dim>::kWarpKeys / 8][2],
                             MatrixDecodeStorage<dim>& shared, MatrixDecodeSums<dim>& sums) {
  using Tiles = MatrixDecodeTiles<dim>;
  const Shared<Bf16x8> values = shared.stage(step, 1);
  KVLAB_UNROLL
  for (int k = 0; k < Tiles::kWarpKeys / 16; ++k) {
    const std::uint32_t p[4] = {weights[2 * k][0], weights[2 * k][1], weights[2 * k + 1][0], weights[2 * k + 1][1]};
    KVLAB_UNROLL
    for (int n = 0; n < dim / 8; n += 2) {
      const int place = Tiles::place(k * 16 + lane_id() % 16, n + lane_id() / 16);
      std::uint32_t both[4];
      load_matrix_transposed_x4(both, (values + place).template as<Bf16>());
      multiply_accumulate<Bf16>(sums.row[n], p, {both[0], both[1]});
      multiply_accumulate<Bf16>(sums.row[n + 1], p, {both[2], both[3]});
    }
  }
}

/// Walks the part's keys.
template <int dim>
KVLAB_DEVICE void walk_part(const DecodeParams<Bf16>& params, const DecodeTask& task, MatrixDecodeStorage<dim>& shared,
                            MatrixDecodeSums<dim>& sums) {
  using Tiles = MatrixDecodeTiles<dim>;
  KeyPlace place = find_key<dim>(params, task, 0);
  for (int step = 0; step < kDecodeStages - 1; ++step) {
    copy_keys<dim>(params, task, step, place, shared);
    place = find_key<dim>(params, task, step + 1);
  }
  load_queries<dim>(params, task, shared);
  block_barrier();
  const int n_steps = (task.end_key - task.first_key + Tiles::kTile - 1) / Tiles::kTile;
  for (int step = 0; step < n_steps; ++step) {
    wait_for_copies<kDecodeStages - 2>();
    warp_barrier();  // all lanes' copies are here, and all are done with the stage that is filled next
    copy_keys<dim>(params, task, step + kDecodeStages - 1, place, shared);
    place = find_key<dim>(params, task, step + kDecodeStages);
    float scores[Tiles::kWarpKeys / 8][4];
    score_keys<dim>(step, shared, scores);
    std::uint32_t weights[Tiles::kWarpKeys / 8][2];
    weigh_keys<dim>(params.scale, task.end_key - warp_first_key<dim>(task, step), scores, sums, weights);
    add_values<dim>(step, weights, shared, sums);
  }
  wait_for_copies<0>();
  warp_barrier();  // the ring is free
}

/// Leaves every warp's sums where the whole block finds them.
template <int dim>
KVLAB_DEVICE void share_rows(MatrixDecodeSums<dim>& sums, MatrixDecodeStorage<dim>& shared) {
  group_sum<4>(sums.total);
  const int pair = lane_id() % 4;
  KVLAB_UNROLL
  for (int h = 0; h < 2; ++h) {
    const int head = lane_id() / 4 + 8 * h;
    store_shared_if(pair == 0, shared.largest.at(warp_id() * kMatrixHeads + head), sums.largest[h]);
    store_shared_if(pair == 0, shared.total.at(warp_id() * kMatrixHeads + head), sums.total[h]);
    const auto row = shared.output(warp_id(), head).template as<Vector<float, 2>>();
    KVLAB_UNROLL
    for (int n = 0; n < dim / 8; ++n) {
      store_shared(row + (n * 4 + pair), Vector<float, 2>{{sums.row[n][2 * h], sums.row[n][2 * h + 1]}});
    }
  }
  block_barrier();
}

/// Writes the pass's rows, the warps' sums together.
template <int dim>
KVLAB_DEVICE void store_part_rows(const DecodeParams<Bf16>& params, const DecodeTask& task,
                                  MatrixDecodeStorage<dim>& shared) {
  using Tiles = MatrixDecodeTiles<dim>;
  for (int item = thread_x(); item < kMatrixHeads * dim / 4; item += Tiles::kBlock) {
    const int head = item / (dim / 4);
    const int component = item % (dim / 4) * 4;
    PartSum sum{{kNoScore, 0.0F}};
    for (int warp = 0; warp < Tiles::kWarps; ++warp) {
      const float of_warp = load_shared(shared.largest.at(warp * kMatrixHeads + head));
      sum[0] = of_warp > sum[0] ? of_warp : sum[0];
    }
    Float4 row{};
    for (int warp = 0; warp < Tiles::kWarps; ++warp) {
      const float weight = exp2_approx(load_shared(shared.largest.at(warp * kMatrixHeads + head)) - sum[0]);
      sum[1] += weight * load_shared(shared.total.at(warp * kMatrixHeads + head));
      const Float4 part = load_shared((shared.output(warp, head) + component).template as<Float4>());
      KVLAB_UNROLL
      for (int e = 0; e < 4; ++e) row[e] += weight * part[e];
    }
    store_part<kMatrixHeads>(params, task, head, component, sum, row);
  }
}

template <int dim>
KVLAB_DEVICE void clear_sums(MatrixDecodeSums<dim>& sums) {
  KVLAB_UNROLL
  for (int h = 0; h < 2; ++h) {
    sums.largest[h] = kNoScore;
    sums.total[h] = 0.0F;
  }
  KVLAB_UNROLL
  for (int n = 0; n < dim / 8; ++n) {
    KVLAB_UNROLL
    for (int e = 0; e < 4; ++e) sums.row[n][e] = 0.0F;
  }
}

/// Grid: n_workers; block: kBlock threads; shared: MatrixDecodeStorage. head_dim <= dim. Reads the K and V rows of its
/// keys once each, in 16-byte chunks. Writes out where it has all keys of a row, partial rows and sums where not.
template <int dim>
KVLAB_KERNEL void KVLAB_LAUNCH_BOUNDS(MatrixDecodeTiles<dim>::kBlock, 2)
    attention_decode_matrix_kernel(DecodeParams<Bf16> params) {
  auto& shared = shared_storage<MatrixDecodeStorage<dim>>();
  wait_for_previous_launch();
  for_each_task<kMatrixHeads>(params, MatrixDecodeTiles<dim>::kTile, [&](const DecodeTask& task) {
    MatrixDecodeSums<dim> sums;
    clear_sums(sums);
    walk_part<dim>(params, task, shared, sums);
    share_rows<dim>(sums, shared);
    store_part_rows<dim>(params, task, shared);
    block_barrier();  // the next part's copies go where these sums stand
  });
}

}  // namespace kvlab::cuda
