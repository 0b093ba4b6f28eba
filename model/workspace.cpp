#include "model/workspace.h"

#include <algorithm>
#include <stdexcept>

namespace kvlab {
namespace {

constexpr std::size_t kAlignment = 256;  // what a device reads fastest

/// Floats that a step needs for a purpose. Rows are kept apart only where some rows need no logits.
std::int64_t planned_floats(Scratch purpose, const ModelConfig& config, std::int64_t n_tokens,
                            std::int64_t n_logit_rows) {
  const std::int64_t n_kept = n_logit_rows < n_tokens ? n_logit_rows : 0;
  const std::int64_t q_width = config.n_heads * config.head_dim;
  const std::int64_t kv_width = config.n_kv_heads * config.head_dim;
  const bool gated = config.family == Family::llama;
  switch (purpose) {
    case Scratch::residual:
    case Scratch::normed:
      return n_tokens * config.hidden;
    case Scratch::qkv:
      return n_tokens * (q_width + 2 * kv_width);
    case Scratch::attention_out:
      return n_tokens * q_width;
    case Scratch::up:
      return n_tokens * config.ffn_hidden * (gated ? 2 : 1);
    case Scratch::activated:
      return gated ? n_tokens * config.ffn_hidden : 0;
    case Scratch::kept_normed:
    case Scratch::kept_residual:
      return n_kept * config.hidden;
    case Scratch::kept_q:
      return n_kept * q_width;
    case Scratch::count:
      break;
  }
  throw std::logic_error("workspace: no such purpose");
}

}  // namespace

void Workspace::begin_step(const ModelConfig& config, std::int64_t n_tokens, std::int64_t n_logit_rows) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < kPurposes; ++i) {
    const std::int64_t n = planned_floats(static_cast<Scratch>(i), config, n_tokens, n_logit_rows);
    parts_[i] = {end, static_cast<std::size_t>(n) * sizeof(float), 0};
    end = (end + parts_[i].planned_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  if (memory_ != nullptr && memory_->bytes() >= end) return;
  memory_.reset();
  memory_ = ops_.allocate(end, "activations of a step");
  ++growths_;
}

float* Workspace::floats(Scratch purpose, std::int64_t n_values) {
  Part& part = parts_[static_cast<std::size_t>(purpose)];
  const auto bytes = static_cast<std::size_t>(n_values) * sizeof(float);
  if (bytes > part.planned_bytes) throw std::logic_error("workspace: a step asks for more than was planned");
  part.asked_bytes = std::max(part.asked_bytes, bytes);
  return reinterpret_cast<float*>(static_cast<std::byte*>(memory_->data()) + part.offset_bytes);
}

std::int64_t Workspace::step_bytes() const {
  std::size_t bytes = 0;
  for (const Part& part : parts_) bytes += part.asked_bytes;
  return static_cast<std::int64_t>(bytes);
}

}  // namespace kvlab
