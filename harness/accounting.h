// The formulas of SPEC S12, S15-S18 and S22: exact integers for rows, dots, FLOPs and bytes of passes, phases and runs,
// summed from the table of operations (operation_table.h). What the decoder counts while running must equal these to
// the last unit.
//
// Conventions, for formula and counter alike; a *pass* is one Transformer::step over `batch` sequences:
// - Rows. With a cache, a prefill of P tokens is ceil(P / prefill_chunk) passes (one when prefill_chunk is 0) and a
//   decode step one pass of one row a sequence. Without a cache every call is one pass over all rows of the sequence so
//   far, depth included; prefill_chunk does not apply.
// - Logit rows. logits=all: every row of every pass. logits=last: the last row of each sequence in the last pass of a
//   call; earlier chunks have none. The final norm and the LM head run over logit rows only.
// - Prune. In a pruned last layer K and V are computed for all rows, everything else for the logit rows only; in a pass
//   without logit rows nothing else at all (no dots, nothing read from the cache). A pass whose rows are all logit rows
//   is not changed by pruning.
// - Dots count one query head, causal and windowed, summed over sequences. `newest_row` are those of each sequence's
//   last row in the pass, where they were executed.
// - gemm_flops: 2 per multiply-add of every projection, the MLP and the LM head. attention_flops: 4 n_heads head_dim
//   per dot. Norms, biases, RoPE, softmax and activation functions are left out.
// - weight_bytes: every weight that the pass uses, once, at dtype_bytes(weight_dtype). Norm and bias vectors count at
//   the same size as the matrices, as in the checkpoint (the program holds them as f32; for an 8B model the difference
//   is 4e-5). The token embedding, and gpt2's position embedding, count one row per row of the pass. The LM head counts
//   in full, tied or not, together with the final norm, when the pass has logit rows. A pruned last layer without logit
//   rows uses its attention norm, Wk, Wv, their biases and k_norm.
// - kv_read_bytes: per layer and sequence the distinct positions that some row of the pass sees, once, K and V, in the
//   KV dtype. kv_write_bytes: K and V of every row of the pass in every layer; `qkv` also writes Q (never reads it),
//   except in a pruned last layer with rows left out. Both are 0 without a cache.
// - All head counts are those after re-heading. What does not fit 64 bits is refused with InputError.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/case.h"
#include "harness/operation_table.h"
#include "model/model_config.h"
#include "model/work_counters.h"
#include "variants/variant.h"

namespace kvlab {

/// The work of the measured prefill (all chunks, all sequences, after `depth` cached tokens; without a cache the depth
/// rows are recomputed in it). `config` is the model's own, before re-heading.
WorkCounters prefill_work(const ModelConfig& config, const Variant& variant, const Workload& workload);
/// The work of decode step i = 1 .. gen_tokens - 1; 0 stands for the prompt's last token brought as a step of its own.
WorkCounters decode_step_work(const ModelConfig& config, const Variant& variant, const Workload& workload,
                              std::int64_t i);
/// All decode steps of a run.
WorkCounters decode_work(const ModelConfig& config, const Variant& variant, const Workload& workload);

/// Sequences of a ragged batch that have the same number of tokens.
struct PromptGroup {
  std::int64_t count;   // of such sequences
  std::int64_t depth;   // tokens in the cache before
  std::int64_t tokens;  // >= 1
};

/// The passes that a prefill of such prompts takes: chunks where the variant asks for them; a sequence that is done
/// sits out the rest.
std::vector<std::vector<SequenceRows>> prefill_passes(const Variant& variant, std::span<const PromptGroup> prompts);
/// Decode step i >= 1 after that prefill.
std::vector<SequenceRows> decode_pass(const Variant& variant, std::span<const PromptGroup> prompts, std::int64_t i);

/// The configuration with `heads` applied.
ModelConfig reheaded_config(const ModelConfig& config, const Variant& variant);

/// Bytes of all weights as stored for the variant: every parameter once at the weight dtype, a tied embedding once.
std::int64_t stored_weight_bytes(const ModelConfig& config, const Variant& variant);

/// KV memory reserved for a workload: `tokens` tokens a sequence, whole pages where paged (0 for cache none).
std::int64_t kv_reserved_bytes(const ModelConfig& config, const Variant& variant, std::int64_t batch,
                               std::int64_t tokens);

}  // namespace kvlab
