// The activations of a step: one growing buffer per purpose, reused by every layer and every step (SPEC S25).
#pragma once

#include <array>
#include <cstdint>
#include <memory>

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

  /// Memory for `n_values` floats; what it held before is lost when it has to grow.
  float* floats(Scratch purpose, std::int64_t n_values) {
    std::unique_ptr<Buffer>& buffer = buffers_[static_cast<std::size_t>(purpose)];
    const auto bytes = static_cast<std::size_t>(n_values) * sizeof(float);
    if (buffer == nullptr || buffer->bytes() < bytes) {
      buffer.reset();
      buffer = ops_.allocate(bytes);
    }
    return static_cast<float*>(buffer->data());
  }

  std::int64_t bytes() const {
    std::int64_t total = 0;
    for (const auto& buffer : buffers_) total += buffer == nullptr ? 0 : static_cast<std::int64_t>(buffer->bytes());
    return total;
  }

 private:
  Operations& ops_;
  std::array<std::unique_ptr<Buffer>, static_cast<std::size_t>(Scratch::count)> buffers_;
};

}  // namespace kvlab
