// The workspace of a run (SPEC S25) from shapes alone: to the byte what Decoder::workspace_bytes() reports after it.
//
// A pass over n rows, L of them logit rows, holds f32 buffers that its layers share: residual stream and norm
// [n, hidden], Q, K and V [n, (n_heads + 2 n_kv_heads) head_dim], joined heads [n, n_heads head_dim], the MLP's
// projections [n, 2 ffn_hidden] and product [n, ffn_hidden] (gpt2: one [n, ffn_hidden]), the rows picked for the head
// [L, hidden] where L < n, logits [L, vocab_size]; what a pruned last layer keeps, [L, 2 hidden + n_heads head_dim];
// and the scratch of its attention, which the backend tells.
#pragma once

#include <cstdint>

#include "harness/case.h"
#include "kernels/operations.h"
#include "model/model_config.h"
#include "variants/variant.h"

namespace kvlab {

/// Of the largest pass of the measured prefill, all sequences together. `config` is after re-heading. Throws InputError
/// when the bytes do not fit 64 bits.
std::int64_t prefill_workspace_bytes(const ModelConfig& config, const Variant& variant, const Workload& workload,
                                     const Operations& ops);
/// Of decode step i, counted as in accounting.h.
std::int64_t decode_step_workspace_bytes(const ModelConfig& config, const Variant& variant, const Workload& workload,
                                         std::int64_t i, const Operations& ops);
/// Of the largest pass of a whole run: the depth's prefill, the measured one, and gen_tokens - 1 decode steps.
std::int64_t workspace_bytes(const ModelConfig& config, const Variant& variant, const Workload& workload,
                             const Operations& ops);

}  // namespace kvlab
