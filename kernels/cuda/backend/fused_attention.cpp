#include "kernels/cuda/backend/fused_attention.h"

#include <algorithm>

namespace kvlab::cuda {
namespace {

DecodeShape shape_of(const AttentionArgs& args, std::int64_t n_rows) {
  return {n_rows, args.n_heads, args.n_kv_heads, args.head_dim, args.window, args.kv.dtype};
}

bool is_decode(std::span<const SequenceSpan> seqs) {
  return std::all_of(seqs.begin(), seqs.end(), [](const SequenceSpan& seq) { return seq.n_queries == 1; });
}

std::int64_t workers_for(const DecodeShape& shape, std::int64_t n_multiprocessors) {
  return decode_workers(n_multiprocessors, decode_blocks_per_multiprocessor(shape));
}

std::size_t scratch_bytes(const DecodeShape& shape, std::int64_t n_multiprocessors) {
  const std::int64_t n_workers = workers_for(shape, n_multiprocessors);
  return decode_plan_bytes(shape, n_workers) + decode_workspace_bytes(shape, n_workers);
}

}  // namespace

bool fused_takes(std::int64_t head_dim) { return head_dim % 8 == 0 && head_dim <= kMaxDecodeHeadDim; }

bool fused_rounds(const AttentionArgs& args) {
  return decode_kernel(shape_of(args, 1)).path == DecodePath::tensor_cores;
}

std::size_t fused_scratch_bytes(const AttentionArgs& args, std::int64_t n_multiprocessors) {
  if (is_decode(args.seqs)) {
    return scratch_bytes(shape_of(args, static_cast<std::int64_t>(args.seqs.size())), n_multiprocessors);
  }
  std::size_t most = 0;
  for (const SequenceSpan& seq : args.seqs) {
    if (seq.n_queries > 0) most = std::max(most, scratch_bytes(shape_of(args, seq.n_queries), n_multiprocessors));
  }
  return most;
}

FusedAttention::FusedAttention(DeviceContext& context, ScratchMemory& scratch, HostMirror& mirror, DecodePlans& plans,
                               const AttentionArgs& args)
    : context_(context), scratch_(scratch) {
  if (is_decode(args.seqs)) {
    add_part(plans, args, mirror.copy_of(args.kv, args.seqs.size()), mirror.copy_of(args.seqs),
             static_cast<std::int64_t>(args.seqs.size()));
    return;
  }
  for (std::size_t seq = 0; seq < args.seqs.size(); ++seq) {
    if (args.seqs[seq].n_queries > 0) add_sequence(mirror, plans, args, seq);
  }
}

void FusedAttention::add_part(DecodePlans& plans, const AttentionArgs& args, const KvView& kv, const SequenceSpan* seqs,
                              std::int64_t n_rows) {
  Part part{{}, seqs, {}};
  DecodeCall& call = part.call;
  call.shape = shape_of(args, n_rows);
  call.n_workers = workers_for(call.shape, context_.n_multiprocessors());
  call.q = args.q;
  call.q_stride = args.q_stride;
  call.out = args.out;
  call.out_stride = args.out_stride;
  call.kv = kv;
  call.scale = args.scale;
  part.plan = plans.plan_for(call.shape, seqs);
  parts_.push_back(part);
}

/// Every query of the sequence reads the same pages or region.
void FusedAttention::add_sequence(HostMirror& mirror, DecodePlans& plans, const AttentionArgs& args, std::size_t seq) {
  const SequenceSpan& span = args.seqs[seq];
  KvView kv = args.kv;
  if (kv.page_table != nullptr) {
    const KvView whole = mirror.copy_of(args.kv, args.seqs.size());
    kv.page_table = whole.page_table + static_cast<std::int64_t>(seq) * args.kv.pages_per_seq;
    kv.pages_per_seq = 0;
  } else {
    kv.region_offset = mirror.row_regions(span, args.kv, seq);
  }
  add_part(plans, args, kv, mirror.row_spans(span), span.n_queries);
}

void FusedAttention::prepare() {
  std::size_t bytes = 0;
  for (const Part& part : parts_) {
    bytes = std::max(bytes, decode_workspace_bytes(part.call.shape, part.call.n_workers));
    part.plan.memory->reserve(decode_plan_bytes(part.call.shape, part.call.n_workers));
  }
  scratch_.reserve(bytes);
}

void FusedAttention::launch(CUstream_st* stream) {
  for (const Part& part : parts_) {
    DecodeCall call = part.call;
    call.plan = part.plan.memory->as<void>();
    call.workspace = scratch_.as<float>();
    if (part.plan.is_new) {
      launch_decode_plan(call.shape, call.n_workers, part.seqs, part.plan.memory->as<void>(), stream);
    }
    launch_attention_decode(call, stream);
  }
}

}  // namespace kvlab::cuda
