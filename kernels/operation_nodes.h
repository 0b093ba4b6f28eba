// How each operation of the table looks as a node of a recorded graph: its name, its weight and the tensors it touches.
// The same for every backend.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/operations.h"

namespace kvlab::nodes {

GraphNode embed(const PackedMatrix& table, std::span<const std::int32_t> ids, const float* out, bool accumulate);
GraphNode matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows, const float* y,
                 std::int64_t y_stride, bool accumulate);
/// `operation`: "rms_norm" or "layer_norm".
GraphNode norm(const char* operation, const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
               const float* y, std::int64_t y_stride);
GraphNode rope(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
               const std::int32_t* positions);
GraphNode append(const float* k, const float* v, std::int64_t stride, std::span<const SequenceSpan> seqs,
                 std::int64_t width, const KvView& view);
/// `scratch`: what calls that share their scratch have in common.
GraphNode attention(AttentionKind kind, const AttentionArgs& args, const void* scratch);
GraphNode fused_matmul(const FusedProduct& product);
GraphNode rope_append(const RopeAppend& step);
GraphNode silu_multiply(const float* gate_up, std::int64_t n_rows, std::int64_t width, const float* out);
GraphNode gelu(const float* x, std::int64_t n_values);
GraphNode gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> rows, std::int64_t width,
                      const float* dst, std::int64_t dst_stride);
GraphNode argmax(const float* logits, std::int64_t stride, std::int64_t n_rows, std::int64_t n_choices,
                 const std::int32_t* ids);
GraphNode sample(const float* logits, std::int64_t stride, std::int64_t n_rows, std::int64_t n_choices,
                 const std::int32_t* ids);

}  // namespace kvlab::nodes
