// Fused attention over several queries a sequence, on tensor cores. One query a sequence, and f32 K and V:
// fused_attention.h.
#pragma once

#include "kernels/cuda/attention_prefill.h"
#include "kernels/cuda/backend/device_graph.h"
#include "kernels/cuda/backend/host_mirror.h"

namespace kvlab::cuda {

/// Whether the call has several queries for a sequence and K and V in bf16, which tensor cores multiply.
bool prefill_takes(const AttentionArgs& args);

class PrefillAttention final : public Work {
 public:
  /// `args` has host spans and a host view, of which `mirror` has or makes the device's copies. prefill_takes it.
  PrefillAttention(HostMirror& mirror, const AttentionArgs& args);

  void launch(CUstream_st* stream) override { launch_attention_prefill(call_, stream); }

 private:
  PrefillCall call_;
};

}  // namespace kvlab::cuda
