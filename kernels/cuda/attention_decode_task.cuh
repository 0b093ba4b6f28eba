// What both kernels of decode attention share: their parameters, the parts of the plan that a block takes one after the
// other, and where the result of a part goes. The kernels' own work is in attention_decode.cuh (CUDA cores) and
// attention_decode_matrix.cuh (tensor cores).
#pragma once

#include <cfloat>
#include <cstdint>

#include "kernels/cuda/decode_plan.h"
#include "kernels/cuda/kv_view.cuh"
#include "kernels/cuda/memory.cuh"

namespace kvlab::cuda {

constexpr float kNoScore = -FLT_MAX;  // the largest score of no keys; finite, so that differences are never NaN

using Float4 = Vector<float, 4>;
using PartSum = Vector<float, 2>;  // of one head and part: its largest score, the sum of its weights

/// Where the step's data stand. Scores are in units of log 2, for exp2.
template <typename T>
struct DecodeParams {
  Global<const DecodeTotals> totals;
  Global<const DecodeSequence> sequences;  // [n_seqs]
  Global<const DecodeRun> runs;            // [n_workers]
  Global<const float> q;                   // [n_rows, n_heads, head_dim], rows q_stride apart
  std::int64_t q_stride;
  Global<float> out;  // [n_rows, n_heads, head_dim], rows out_stride apart
  std::int64_t out_stride;
  DeviceKvView<const T> kv;
  Global<float> partial_rows;    // [2 n_workers, heads of a pass, head_dim]
  Global<PartSum> partial_sums;  // [2 n_workers, heads of a pass]
  std::int32_t group;
  std::int32_t n_passes;
  std::int32_t n_rows;  // of a sequence: n_kv_heads * n_passes
  std::int32_t head_dim;
  float scale;  // times log2(e)
};

/// Some keys of a sequence, for the query heads of one pass.
struct DecodeTask {
  std::int32_t seq;
  std::int32_t query_row;
  std::int32_t kv_head;
  std::int32_t first_head;  // of the pass
  std::int32_t n_heads;     // of the pass
  std::int32_t first_key;
  std::int32_t end_key;
  std::int32_t slot;          // of the workspace; -1: these are all keys of the row, whose result is finished
  std::int64_t region_start;  // of the sequence; 0 with a page table
};

/// The first part of a run, as a task.
template <int heads, typename T>
KVLAB_DEVICE DecodeTask decode_task(const DecodeParams<T>& params, const DecodeRun& run, const DecodeSequence& entry,
                                    int tile_keys) {
  const DecodePart part = decode_part(entry, run, tile_keys);
  const std::int32_t first_of_group = run.row % params.n_passes * heads;
  const std::int32_t n_left = params.group - first_of_group;
  DecodeTask task;
  task.seq = run.seq;
  task.query_row = entry.query_row;
  task.kv_head = run.row / params.n_passes;
  task.first_head = task.kv_head * params.group + first_of_group;
  task.n_heads = n_left < heads ? n_left : heads;
  task.first_key = part.first_key;
  task.end_key = part.end_key;
  task.slot = part.is_whole() ? -1 : decode_part_slot(block_x(), part.begins_row);
  task.region_start = params.kv.is_paged() ? 0 : kv_page_start(params.kv, run.seq, 0);
  return task;
}

/// Calls work(task) for every part of this block's run, all threads together. Blocks without work leave at once.
template <int heads, typename T, typename Work>
KVLAB_DEVICE void for_each_task(const DecodeParams<T>& params, int tile_keys, const Work& work) {
  DecodeRun run = load_global_constant(params.runs + block_x());
  while (run.n_tiles > 0) {
    const DecodeSequence entry = load_global_constant(params.sequences + run.seq);
    if (entry.n_keys > 0) work(decode_task<heads>(params, run, entry, tile_keys));
    run = decode_rest(run, entry, params.n_rows, tile_keys);
  }
}

/// Writes four components of one head's row, whose weights sum to sum[1]: divided by it where the row is finished, as
/// they are where the merge will. `is_inside`: the head and the components are there.
template <int heads, typename T>
KVLAB_DEVICE void store_part(const DecodeParams<T>& params, const DecodeTask& task, int head, int component,
                             const PartSum& sum, Float4 row) {
  const bool is_inside = head < task.n_heads && component < params.head_dim;
  const bool is_partial = task.slot >= 0;
  const float weight = is_partial ? 1.0F : 1.0F / sum[1];
  KVLAB_UNROLL
  for (int e = 0; e < 4; ++e) row[e] *= weight;
  const std::int64_t part = std::int64_t{task.slot} * heads + head;
  const std::int64_t whole =
      task.query_row * params.out_stride + static_cast<std::int64_t>(task.first_head + head) * params.head_dim;
  const Global<float> to = is_partial ? params.partial_rows + part * params.head_dim : params.out + whole;
  store_global_if(is_inside, (to + component).template as<Float4>(), row);
  store_global_if(is_inside && component == 0 && is_partial, params.partial_sums + part, sum);
}

}  // namespace kvlab::cuda
