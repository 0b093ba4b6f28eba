// How a step of decode attention is cut among workers, and the K and V bytes that this costs: the same functions for
// launchers, kernels and whoever compares counted bytes with modelled ones. Includes no CUDA header; attention_decode.h
// has the launches, decode_kernel.h chooses the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/decode_kernel.h"
#include "kernels/cuda/host_device.h"
#include "kernels/views.h"

namespace kvlab::cuda {

// The keys that each sequence sees are cut into tiles, once for every KV head and pass (a row). Tiles are counted
// through: sequence by sequence, row by row. Each worker (a block of the kernel) takes a run of them, as long as the
// others' within one tile, which may begin and end inside a row: the merge puts such rows together.

/// A sequence's entry in the plan.
struct alignas(16) DecodeSequence {
  std::int32_t query_row = 0;   // its row of Q and of the output
  std::int32_t first_key = 0;   // that it sees
  std::int32_t n_keys = 0;      // that it sees
  std::int32_t first_tile = 0;  // tiles of all rows of the sequences before it
};

/// A worker's run of tiles: where it begins, and how many.
struct alignas(16) DecodeRun {
  std::int32_t seq = 0;
  std::int32_t row = 0;   // of the sequence: kv_head * n_passes + pass
  std::int32_t tile = 0;  // of the row
  std::int32_t n_tiles = 0;
};

/// All tiles, and the workers that have any.
struct alignas(16) DecodeTotals {
  std::int32_t n_tiles = 0;
  std::int32_t n_busy = 0;  // the later workers have nothing to do
  std::int32_t unused[2] = {};
};

/// Tiles of a row.
KVLAB_HOST_DEVICE constexpr std::int32_t decode_row_tiles(std::int32_t n_keys, std::int32_t tile_keys) {
  return (n_keys + tile_keys - 1) / tile_keys;
}

/// The entry of a sequence whose newest position is the query. window 0: none.
KVLAB_HOST_DEVICE constexpr DecodeSequence decode_sequence(const SequenceSpan& span, std::int32_t window,
                                                           std::int32_t first_tile) {
  const auto kv_len = static_cast<std::int32_t>(span.kv_len);
  const std::int32_t n_keys = window > 0 && kv_len > window ? window : kv_len;
  return {static_cast<std::int32_t>(span.first_row), kv_len - n_keys, n_keys, first_tile};
}

KVLAB_HOST_DEVICE constexpr DecodeTotals decode_totals(std::int32_t n_tiles, std::int32_t n_workers) {
  return {n_tiles, n_tiles < n_workers ? n_tiles : n_workers, {}};
}

/// The first tile of a busy worker; of worker n_busy: all tiles.
KVLAB_HOST_DEVICE constexpr std::int32_t first_tile_of_worker(const DecodeTotals& totals, std::int32_t worker) {
  const std::int32_t n_longer = totals.n_tiles % totals.n_busy;  // workers with a tile more than the others
  return worker * (totals.n_tiles / totals.n_busy) + (worker < n_longer ? worker : n_longer);
}

KVLAB_HOST_DEVICE constexpr std::int32_t worker_of_tile(const DecodeTotals& totals, std::int32_t tile) {
  const std::int32_t share = totals.n_tiles / totals.n_busy;
  const std::int32_t n_longer = totals.n_tiles % totals.n_busy;
  const std::int32_t of_longer = n_longer * (share + 1);
  return tile < of_longer ? tile / (share + 1) : n_longer + (tile - of_longer) / share;
}

/// The first worker whose run begins at or after `tile`, at most n_busy.
KVLAB_HOST_DEVICE constexpr std::int32_t first_worker_from(const DecodeTotals& totals, std::int32_t tile) {
  if (tile >= totals.n_tiles) return totals.n_busy;
  const std::int32_t worker = worker_of_tile(totals, tile);
  return worker + (first_tile_of_worker(totals, worker) < tile ? 1 : 0);
}

/// The run of a worker, which begins in sequence `seq`.
KVLAB_HOST_DEVICE constexpr DecodeRun decode_run(const DecodeTotals& totals, std::int32_t worker, std::int32_t seq,
                                                 const DecodeSequence& entry, std::int32_t tile_keys) {
  const std::int32_t first = first_tile_of_worker(totals, worker);
  const std::int32_t row_tiles = decode_row_tiles(entry.n_keys, tile_keys);
  const std::int32_t in_sequence = first - entry.first_tile;
  return {seq, in_sequence / row_tiles, in_sequence % row_tiles, first_tile_of_worker(totals, worker + 1) - first};
}

/// What is left of a run after its first part, which lies in a row of `entry`'s sequence.
KVLAB_HOST_DEVICE constexpr DecodeRun decode_rest(DecodeRun run, const DecodeSequence& entry, std::int32_t n_rows,
                                                  std::int32_t tile_keys) {
  const std::int32_t n_left = decode_row_tiles(entry.n_keys, tile_keys) - run.tile;
  run.n_tiles -= run.n_tiles < n_left ? run.n_tiles : n_left;
  run.tile = 0;
  if (++run.row == n_rows || entry.n_keys == 0) {
    run.row = 0;
    ++run.seq;
  }
  return run;
}

/// The part of a row that one worker takes. Whole rows are finished; other parts are left for the merge.
struct DecodePart {
  std::int32_t first_key = 0;
  std::int32_t end_key = 0;
  bool begins_row = false;
  bool ends_row = false;

  KVLAB_HOST_DEVICE constexpr bool is_whole() const { return begins_row && ends_row; }
};

/// The first part of a run.
KVLAB_HOST_DEVICE constexpr DecodePart decode_part(const DecodeSequence& entry, const DecodeRun& run,
                                                   std::int32_t tile_keys) {
  const std::int32_t n_left = decode_row_tiles(entry.n_keys, tile_keys) - run.tile;
  DecodePart part;
  part.begins_row = run.tile == 0;
  part.ends_row = run.n_tiles >= n_left;
  part.first_key = entry.first_key + run.tile * tile_keys;
  part.end_key = part.ends_row ? entry.first_key + entry.n_keys : part.first_key + run.n_tiles * tile_keys;
  return part;
}

/// Where a worker leaves a part that is not a whole row: its first part may end a row that others began, its last part
/// may begin one that others end.
KVLAB_HOST_DEVICE constexpr std::int32_t decode_part_slot(std::int32_t worker, bool begins_row) {
  return 2 * worker + (begins_row ? 1 : 0);
}

/// The plan as the host computes it, from the functions that the device calls.
struct DecodePlan {
  DecodeTotals totals;
  std::vector<DecodeSequence> sequences;  // [n_seqs]
  std::vector<DecodeRun> runs;            // [n_workers]
};
DecodePlan decode_plan(const DecodeShape& shape, std::int64_t n_workers, std::span<const SequenceSpan> seqs);

/// Bytes of the plan in device memory: totals, sequences [n_seqs], runs [n_workers].
inline std::size_t decode_plan_bytes(const DecodeShape& shape, std::int64_t n_workers) {
  return sizeof(DecodeTotals) + static_cast<std::size_t>(shape.n_seqs) * sizeof(DecodeSequence) +
         static_cast<std::size_t>(n_workers) * sizeof(DecodeRun);
}

/// Bytes that workers leave for the merge at most: two parts each, an output row, its largest score and its sum for
/// every head of a pass.
inline std::size_t decode_workspace_bytes(const DecodeShape& shape, std::int64_t n_workers) {
  return static_cast<std::size_t>(2 * n_workers * decode_kernel(shape).heads_per_pass * (shape.head_dim + 2)) *
         sizeof(float);
}

/// Bytes of K that a step reads from memory or cache; as many of V. The plan, the page table, Q and the workspace are
/// not in it.
std::int64_t decode_k_bytes(const DecodeShape& shape, std::span<const SequenceSpan> seqs);

/// Throws InputError when a sequence has not one query, or is longer than its row of the page table. On the host.
void check_decode_spans(const KvView& kv, std::span<const SequenceSpan> seqs);

}  // namespace kvlab::cuda
