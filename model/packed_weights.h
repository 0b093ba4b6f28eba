// A checkpoint in the form that the forward pass multiplies by: matrices packed by the backend, Q, K and V joined or
// apart, vectors in device memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/operations.h"
#include "model/weight_source.h"
#include "variants/variant.h"

namespace kvlab {

/// A norm weight or a bias [width]; empty when the model has none.
class PackedVector {
 public:
  PackedVector() = default;
  PackedVector(Operations& ops, const std::vector<float>& values);
  /// Null when empty.
  const float* data() const { return buffer_ == nullptr ? nullptr : static_cast<const float*>(buffer_->data()); }
  std::int64_t size() const { return size_; }

 private:
  std::unique_ptr<Buffer> buffer_;
  std::int64_t size_ = 0;
};

/// y = x W^T + b.
struct PackedLinear {
  std::unique_ptr<PackedMatrix> weight;
  PackedVector bias;
};

/// Q, K and V of one layer: one product (`joined`), or Q and the rest. A pruned last layer keeps Q apart so that it can
/// run on fewer rows.
struct PackedQkv {
  PackedLinear joined;  // [(n_heads + 2 n_kv_heads) head_dim, hidden]; else:
  PackedLinear q;
  PackedLinear kv;  // K and V in one product; else:
  PackedLinear k;
  PackedLinear v;
};

struct PackedLayer {
  PackedVector attention_norm, attention_norm_bias;
  PackedQkv qkv;
  PackedVector q_norm, k_norm;
  PackedLinear attention_output;
  PackedVector mlp_norm, mlp_norm_bias;
  PackedLinear up;  // gate and up joined [2 ffn_hidden, hidden] in the llama family
  PackedLinear down;
};

struct PackedWeights {
  std::unique_ptr<PackedMatrix> token_embedding;     // [vocab_size, hidden]
  std::unique_ptr<PackedMatrix> position_embedding;  // gpt2
  std::vector<PackedLayer> layers;
  PackedVector final_norm, final_norm_bias;
  std::unique_ptr<PackedMatrix> own_lm_head;  // null: the backend multiplies by the tied token embedding itself

  /// [vocab_size, hidden]
  const PackedMatrix& lm_head() const { return own_lm_head != nullptr ? *own_lm_head : *token_embedding; }
};

PackedWeights pack_weights(const WeightSource& source, const Variant& variant, Operations& ops,
                           const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace kvlab
