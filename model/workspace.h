// The activations of a step: one buffer, planned before the step and divided by purpose, used again by every layer and
// every step (SPEC S25).
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "kernels/operations.h"
#include "model/model_config.h"

namespace kvlab {

enum class Scratch {
  residual,       // [n_tokens, hidden] the residual stream
  normed,         // [n_tokens, hidden] a norm's output
  qkv,            // [n_tokens, (n_heads + 2 n_kv_heads) head_dim]
  attention_out,  // [n_tokens, n_heads * head_dim]
  up,             // [n_tokens, 2 ffn_hidden], gpt2 [n_tokens, ffn_hidden]
  activated,      // [n_tokens, ffn_hidden] llama family
  kept_normed,    // [n_logit_rows, hidden] rows of `normed` that a pruned layer keeps
  kept_q,         // [n_logit_rows, n_heads * head_dim]
  kept_residual,  // [n_logit_rows, hidden]
  count,
};

class Workspace {
 public:
  explicit Workspace(Operations& ops) : ops_(ops) {}

  /// Sees that there is memory for every purpose of a step of so many rows, and forgets what the step before asked for.
  /// Throws std::bad_alloc.
  void begin_step(const ModelConfig& config, std::int64_t n_tokens, std::int64_t n_logit_rows);

  /// Memory for `n_values` floats of the step. Throws std::logic_error for more than was planned.
  float* floats(Scratch purpose, std::int64_t n_values);

  /// Pointers that were handed out for a step of some shape are good, for steps of that shape, while this number stays.
  std::int64_t growths() const { return growths_; }

  /// What the step asked for.
  std::int64_t step_bytes() const;

 private:
  static constexpr auto kPurposes = static_cast<std::size_t>(Scratch::count);

  struct Part {
    std::size_t offset_bytes = 0;
    std::size_t planned_bytes = 0;
    std::size_t asked_bytes = 0;
  };

  Operations& ops_;
  std::unique_ptr<Buffer> memory_;
  std::array<Part, kPurposes> parts_{};
  std::int64_t growths_ = 0;
};

}  // namespace kvlab
