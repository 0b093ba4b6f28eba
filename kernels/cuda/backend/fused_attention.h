// Fused attention by the kernel of decode: one query a sequence, or f32 K and V. Others: prefill_attention.h.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/backend/decode_plans.h"
#include "kernels/cuda/backend/device_context.h"
#include "kernels/cuda/backend/device_graph.h"
#include "kernels/cuda/backend/host_mirror.h"
#include "kernels/views.h"

namespace kvlab::cuda {

/// Whether the fused kernels can run heads of this size; others are run by naive attention.
bool fused_takes(std::int64_t head_dim);

/// Whether Q and weights of such a call are rounded: on tensor cores, which multiply bf16; CUDA cores keep f32.
bool fused_rounds(const AttentionArgs& args);

/// Bytes of plan and partial results that such a call needs at one time.
std::size_t fused_scratch_bytes(const AttentionArgs& args, std::int64_t n_multiprocessors);

/// One query for each sequence: decode attention over the batch. Several, with f32 K and V: each query is a sequence of
/// its own to the same kernel, which reads K and V once for every query.
class FusedAttention final : public Work {
 public:
  /// `args` has host spans and a host view, of which `mirror` has or makes the device's copies.
  FusedAttention(DeviceContext& context, ScratchMemory& scratch, HostMirror& mirror, DecodePlans& plans,
                 const AttentionArgs& args);

  void prepare() override;
  void launch(CUstream_st* stream) override;

 private:
  /// One launch: the call, without its scratch, and what its plan is made from.
  struct Part {
    DecodeCall call;
    const SequenceSpan* seqs;  // [n_seqs] on the device
    DecodePlans::Plan plan;
  };

  void add_part(DecodePlans& plans, const AttentionArgs& args, const KvView& kv, const SequenceSpan* seqs,
                std::int64_t n_rows);
  void add_sequence(HostMirror& mirror, DecodePlans& plans, const AttentionArgs& args, std::size_t seq);

  DeviceContext& context_;
  ScratchMemory& scratch_;
  std::vector<Part> parts_;
};

}  // namespace kvlab::cuda
