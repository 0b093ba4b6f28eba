// The activations of a step: one growing buffer per purpose, reused by every layer and every step (SPEC S25).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>

#include "kernels/operations.h"

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

  /// Forgets what earlier steps asked for; keeps the memory.
  void begin_step() { asked_bytes_.fill(0); }

  /// Memory for `n_values` floats; what it held before is lost when it has to grow.
  float* floats(Scratch purpose, std::int64_t n_values) {
    std::unique_ptr<Buffer>& buffer = buffers_[static_cast<std::size_t>(purpose)];
    const auto bytes = static_cast<std::size_t>(n_values) * sizeof(float);
    std::size_t& asked_bytes = asked_bytes_[static_cast<std::size_t>(purpose)];
    asked_bytes = std::max(asked_bytes, bytes);
    if (buffer == nullptr || buffer->bytes() < bytes) {
      buffer.reset();
      buffer = ops_.allocate(bytes);
      ++growths_;
    }
    return static_cast<float*>(buffer->data());
  }

  /// Pointers handed out are good while this number stays.
  std::int64_t growths() const { return growths_; }

  /// What the step asked for; memory that only a larger step needed does not count.
  std::int64_t step_bytes() const {
    return static_cast<std::int64_t>(std::accumulate(asked_bytes_.begin(), asked_bytes_.end(), std::size_t{0}));
  }

 private:
  static constexpr auto kPurposes = static_cast<std::size_t>(Scratch::count);

  Operations& ops_;
  std::array<std::unique_ptr<Buffer>, kPurposes> buffers_;
  std::array<std::size_t, kPurposes> asked_bytes_{};
  std::int64_t growths_ = 0;
};

}  // namespace kvlab
