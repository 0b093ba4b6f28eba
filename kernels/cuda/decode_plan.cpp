// The plan of decode attention and its costs on the host.
#include "kernels/cuda/decode_plan.h"

#include <string>

#include "kernels/error.h"

namespace kvlab::cuda {

DecodePlan decode_plan(const DecodeShape& shape, std::int64_t n_workers, std::span<const SequenceSpan> seqs) {
  const DecodeKernel kernel = decode_kernel(shape);
  DecodePlan plan;
  std::int32_t n_tiles = 0;
  for (const SequenceSpan& span : seqs) {
    plan.sequences.push_back(decode_sequence(span, static_cast<std::int32_t>(shape.window), n_tiles));
    n_tiles += kernel.n_rows * decode_row_tiles(plan.sequences.back().n_keys, kernel.tile_keys);
  }
  plan.totals = decode_totals(n_tiles, static_cast<std::int32_t>(n_workers));
  plan.runs.resize(static_cast<std::size_t>(n_workers));
  for (std::size_t seq = 0; seq < seqs.size(); ++seq) {
    const DecodeSequence& entry = plan.sequences[seq];
    const std::int32_t end = entry.first_tile + kernel.n_rows * decode_row_tiles(entry.n_keys, kernel.tile_keys);
    const std::int32_t end_worker = first_worker_from(plan.totals, end);
    for (std::int32_t worker = first_worker_from(plan.totals, entry.first_tile); worker < end_worker; ++worker) {
      plan.runs[static_cast<std::size_t>(worker)] =
          decode_run(plan.totals, worker, static_cast<std::int32_t>(seq), entry, kernel.tile_keys);
    }
  }
  return plan;
}

std::int64_t decode_k_bytes(const DecodeShape& shape, std::span<const SequenceSpan> seqs) {
  std::int64_t n_keys = 0;
  for (const SequenceSpan& span : seqs) {
    n_keys += decode_sequence(span, static_cast<std::int32_t>(shape.window), 0).n_keys;
  }
  return n_keys * decode_kernel(shape).n_rows * shape.head_dim * static_cast<std::int64_t>(dtype_bytes(shape.dtype));
}

void check_decode_spans(const KvView& kv, std::span<const SequenceSpan> seqs) {
  for (std::size_t seq = 0; seq < seqs.size(); ++seq) {
    const std::string what = "decode attention on CUDA: sequence " + std::to_string(seq) + " has ";
    if (seqs[seq].n_queries != 1) {
      throw InputError(what + std::to_string(seqs[seq].n_queries) + " queries; decode has one, prefill takes more");
    }
    const std::int64_t most = kv.page_table == nullptr ? kMaxDecodeKeys : kv.pages_per_seq * kv.page_size;
    if (seqs[seq].kv_len < 0 || seqs[seq].kv_len > most) {
      throw InputError(what + std::to_string(seqs[seq].kv_len) + " keys; there is room for " + std::to_string(most));
    }
  }
}

}  // namespace kvlab::cuda
