// The body that puts the parts of decode attention's split rows together: a block takes one head of one sequence.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention_decode_task.cuh"
#include "kernels/cuda/decode_plan.h"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"

namespace kvlab::cuda {

constexpr int kDecodeMergeBlock = kMaxDecodeHeadDim / 4;  // a thread takes four components

/// The workers that have keys of a row.
struct DecodeWorkers {
  std::int32_t first;
  std::int32_t last;
};

/// The parts' rows, weighed by their largest scores, over the sum of their weights: four components.
template <typename T>
KVLAB_DEVICE Float4 merged_row(const DecodeParams<T>& params, const DecodeWorkers& workers, int heads_per_pass,
                               int head, int component) {
  const auto part_of = [&](std::int32_t worker) {
    return std::int64_t{decode_part_slot(worker, worker == workers.first)} * heads_per_pass + head;
  };
  float largest = kNoScore;
  for (std::int32_t worker = workers.first; worker <= workers.last; ++worker) {
    const float of_part = load_global(params.partial_sums + part_of(worker))[0];
    largest = of_part > largest ? of_part : largest;
  }
  float total = 0.0F;
  Float4 row{};
  for (std::int32_t worker = workers.first; worker <= workers.last; ++worker) {
    const PartSum sum = load_global(params.partial_sums + part_of(worker));
    const Global<const float> from = params.partial_rows + part_of(worker) * params.head_dim + component;
    const Float4 part = load_global_if(component < params.head_dim, from.template as<Float4>(), Float4{});
    const float weight = exp2_approx(sum[0] - largest);
    total += weight * sum[1];
    for (int e = 0; e < 4; ++e) row[e] += weight * part[e];
  }
  for (int e = 0; e < 4; ++e) row[e] /= total;
  return row;
}

/// Grid: n_heads x n_seqs; block: kDecodeMergeBlock threads; no shared memory. Rows that one worker had are done
/// already: their blocks leave at once. Sequences without keys, which no worker had, get zeros.
template <typename T>
KVLAB_KERNEL void attention_decode_merge_kernel(DecodeParams<T> params, std::int32_t heads_per_pass,
                                                std::int32_t tile_keys) {
  wait_for_previous_launch();
  const DecodeSequence entry = load_global_constant(params.sequences + block_y());
  const DecodeTotals totals = load_global_constant(params.totals);
  const std::int32_t row_tiles = decode_row_tiles(entry.n_keys, tile_keys);
  const std::int32_t of_group = block_x() % params.group;
  const std::int32_t row = block_x() / params.group * params.n_passes + of_group / heads_per_pass;
  const std::int32_t first_tile = entry.first_tile + row * row_tiles;
  Float4 values{};
  const int component = thread_x() * 4;
  if (row_tiles > 0) {
    const DecodeWorkers workers{worker_of_tile(totals, first_tile), worker_of_tile(totals, first_tile + row_tiles - 1)};
    if (workers.first == workers.last) return;
    values = merged_row(params, workers, heads_per_pass, of_group % heads_per_pass, component);
  }
  const Global<float> to =
      params.out + entry.query_row * params.out_stride + std::int64_t{block_x()} * params.head_dim + component;
  store_global_if(component < params.head_dim, to.template as<Float4>(), values);
}

}  // namespace kvlab::cuda
