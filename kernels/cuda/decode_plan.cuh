// The body that makes the plan of decode attention on the device: one block, once a step, for all layers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/decode_plan.h"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/warp_ops.cuh"
#include "kernels/views.h"

namespace kvlab::cuda {

constexpr int kDecodePlanWarps = 8;
constexpr int kDecodePlanBlock = kDecodePlanWarps * kWarpSize;

struct DecodePlanStorage {
  SharedArray<std::int32_t, kDecodePlanWarps> warp_tiles;  // of the sequences that a warp looks at
};

/// Where a plan's parts are in its buffer.
struct DecodePlanView {
  Global<DecodeTotals> totals;
  Global<DecodeSequence> sequences;  // [n_seqs]
  Global<DecodeRun> runs;            // [n_workers]
};

/// What the plan is made for.
struct DecodePlanParams {
  Global<const SequenceSpan> seqs;  // [n_seqs]
  std::int32_t n_seqs;
  std::int32_t window;
  std::int32_t n_rows;
  std::int32_t tile_keys;
  std::int32_t n_workers;
};

/// In 8-byte pieces; n_queries is 1 and is not read.
KVLAB_DEVICE SequenceSpan load_decode_span(Global<const SequenceSpan> spans, std::int32_t seq) {
  static_assert(sizeof(SequenceSpan) == 24 && offsetof(SequenceSpan, kv_len) == 16);
  const Global<const std::int64_t> span = (spans + seq).as<const std::int64_t>();
  return {load_global_constant(span), 1, load_global_constant(span + 2)};
}

/// Sum of `value` over this thread and the threads before it; *total is the whole block's.
KVLAB_DEVICE std::int32_t block_prefix_sum(std::int32_t value, DecodePlanStorage& shared, std::int32_t* total) {
  std::int32_t sum = value;
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const std::int32_t below = shuffle_up(sum, distance);
    sum += lane_id() >= distance ? below : 0;
  }
  block_barrier();  // the sums of the call before have been read
  store_shared_if(lane_id() == kWarpSize - 1, shared.warp_tiles.at(warp_id()), sum);
  block_barrier();
  *total = 0;
  for (int warp = 0; warp < kDecodePlanWarps; ++warp) {
    const std::int32_t of_warp = load_shared(shared.warp_tiles.at(warp));
    sum += warp < warp_id() ? of_warp : 0;
    *total += of_warp;
  }
  return sum;
}

/// Writes the sequences' entries; returns the number of all tiles.
KVLAB_DEVICE std::int32_t write_sequences(const DecodePlanParams& params, const DecodePlanView& plan,
                                          DecodePlanStorage& shared) {
  std::int32_t n_before = 0;
  for (std::int32_t first = 0; first < params.n_seqs; first += kDecodePlanBlock) {
    const std::int32_t seq = first + thread_x();
    DecodeSequence entry;
    if (seq < params.n_seqs) entry = decode_sequence(load_decode_span(params.seqs, seq), params.window, 0);
    const std::int32_t n_tiles = params.n_rows * decode_row_tiles(entry.n_keys, params.tile_keys);
    std::int32_t total = 0;
    entry.first_tile = n_before + block_prefix_sum(n_tiles, shared, &total) - n_tiles;
    store_global_if(seq < params.n_seqs, plan.sequences + seq, entry);
    n_before += total;
  }
  return n_before;
}

/// Grid: one block of kDecodePlanBlock threads; shared: DecodePlanStorage. Each warp writes the runs that begin in its
/// sequences.
KVLAB_KERNEL void decode_plan_kernel(DecodePlanParams params, DecodePlanView plan) {
  wait_for_previous_launch();
  auto& shared = shared_storage<DecodePlanStorage>();
  const DecodeTotals totals = decode_totals(write_sequences(params, plan, shared), params.n_workers);
  block_barrier();  // the entries are read by other threads than wrote them
  for (std::int32_t seq = warp_id(); seq < params.n_seqs; seq += kDecodePlanWarps) {
    const DecodeSequence entry = load_global(plan.sequences + seq);
    const std::int32_t n_tiles = params.n_rows * decode_row_tiles(entry.n_keys, params.tile_keys);
    const std::int32_t end = first_worker_from(totals, entry.first_tile + n_tiles);
    for (std::int32_t worker = first_worker_from(totals, entry.first_tile) + lane_id(); worker < end;
         worker += kWarpSize) {
      store_global(plan.runs + worker, decode_run(totals, worker, seq, entry, params.tile_keys));
    }
  }
  for (std::int32_t worker = totals.n_busy + thread_x(); worker < params.n_workers; worker += kDecodePlanBlock) {
    store_global(plan.runs + worker, DecodeRun{});
  }
  store_global_if(thread_x() == 0, plan.totals, totals);
}

/// The parts of a plan's buffer.
inline DecodePlanView decode_plan_view(void* plan, std::int64_t n_seqs) {
  DecodePlanView view;
  view.totals = static_cast<DecodeTotals*>(plan);
  view.sequences = (view.totals + 1).as<DecodeSequence>();
  view.runs = (view.sequences + n_seqs).as<DecodeRun>();
  return view;
}

}  // namespace kvlab::cuda
