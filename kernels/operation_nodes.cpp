#include "kernels/operation_nodes.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kvlab::nodes {
namespace {

TensorRange rows(const float* data, std::int64_t n_rows, std::int64_t width, std::int64_t stride,
                 std::string name = {}) {
  constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
  return {std::move(name), data, n_rows, width, width * kFloat, stride * kFloat};
}

/// A buffer known by its start.
TensorRange whole(std::string name, const void* start, std::int64_t n_rows, std::int64_t width) {
  return {std::move(name), start, n_rows, width, 1, 0};
}

std::int64_t cached_rows(std::span<const SequenceSpan> seqs) {
  std::int64_t n = 0;
  for (const SequenceSpan& seq : seqs) n += seq.kv_len;
  return n;
}

std::int64_t step_rows(std::span<const SequenceSpan> seqs) {
  std::int64_t n = 0;
  for (const SequenceSpan& seq : seqs) n += seq.n_queries;
  return n;
}

}  // namespace

GraphNode embed(const PackedMatrix& table, std::span<const std::int32_t> ids, const float* out, bool accumulate) {
  const auto n = static_cast<std::int64_t>(ids.size());
  const TensorRange x = rows(out, n, table.n_in(), table.n_in());
  GraphNode node{"embed", "", -1, {table.n_out(), table.n_in()}, {whole("ids", ids.data(), n, 1)}, {x}};
  if (accumulate) node.reads.push_back(x);
  return node;
}

GraphNode matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows, const float* y,
                 std::int64_t y_stride, bool accumulate) {
  const TensorRange out = rows(y, n_rows, weight.n_out(), y_stride);
  GraphNode node{"matmul", "", -1, {weight.n_out(), weight.n_in()}, {rows(x, n_rows, weight.n_in(), x_stride)}, {out}};
  if (accumulate) node.reads.push_back(out);
  return node;
}

GraphNode norm(const char* operation, const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
               const float* y, std::int64_t y_stride) {
  return {operation, "", -1, {}, {rows(x, n_rows, width, x_stride)}, {rows(y, n_rows, width, y_stride)}};
}

GraphNode rope(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
               const std::int32_t* positions) {
  const TensorRange heads = rows(x, n_rows, width, x_stride);
  return {"rope", "", -1, {}, {heads, whole("positions", positions, n_rows, 1)}, {heads}};
}

GraphNode append(const float* k, const float* v, std::int64_t stride, std::span<const SequenceSpan> seqs,
                 std::int64_t width, const KvView& view) {
  const std::int64_t n_new = step_rows(seqs);
  const std::int64_t n_cached = cached_rows(seqs);
  GraphNode node{"append", "", -1, {}, {rows(k, n_new, width, stride, v == nullptr ? "Q" : "K")}, {}};
  node.writes.push_back(whole(v == nullptr ? "Q cache" : "K cache", view.k, n_cached, width));
  if (v == nullptr) return node;
  node.reads.push_back(rows(v, n_new, width, stride, "V"));
  node.writes.push_back(whole("V cache", view.v, n_cached, width));
  return node;
}

GraphNode attention(AttentionKind kind, const AttentionArgs& args, const void* scratch) {
  const std::int64_t n_rows = step_rows(args.seqs);
  const std::int64_t n_cached = cached_rows(args.seqs);
  const std::int64_t kv_width = args.n_kv_heads * args.head_dim;
  const std::int64_t q_width = args.n_heads * args.head_dim;
  return {kind == AttentionKind::naive ? "attention (naive)" : "attention (fused)",
          "",
          -1,
          {},
          {rows(args.q, n_rows, q_width, args.q_stride, "Q"), whole("K", args.kv.k, n_cached, kv_width),
           whole("V", args.kv.v, n_cached, kv_width)},
          {rows(args.out, n_rows, q_width, args.out_stride), whole("scratch", scratch, 1, 1)}};
}

GraphNode fused_matmul(const FusedProduct& product) {
  const std::int64_t n = product.n_rows;
  const std::int64_t n_in = product.weight->n_in();
  const std::int64_t n_out = product.weight->n_out();
  const std::int64_t width = product.gate_up == nullptr ? n_out : n_out / 2;
  GraphNode node{"fused_matmul", "", -1, {n_out, n_in}, {rows(product.x, n, n_in, n_in)}, {}};
  node.writes = {rows(product.y, n, width, width), rows(product.normed, n, n_in, n_in, "scratch")};
  if (product.gate_up != nullptr) node.writes.push_back(rows(product.gate_up, n, n_out, n_out, "scratch"));
  return node;
}

GraphNode rope_append(const RopeAppend& step) {
  const auto n = static_cast<std::int64_t>(step.positions.size());
  const std::int64_t n_cached = cached_rows(step.seqs);
  const std::int64_t q_width = step.n_heads * step.head_dim;
  const std::int64_t kv_width = step.n_kv_heads * step.head_dim;
  return {"rope_append",
          "",
          -1,
          {},
          {rows(step.qkv, n, q_width + 2 * kv_width, step.stride, "Q, K, V"),
           whole("positions", step.positions.data(), n, 1)},
          {rows(step.qkv, n, q_width, step.stride, "Q"), whole("K cache", step.kv.k, n_cached, kv_width),
           whole("V cache", step.kv.v, n_cached, kv_width)}};
}

GraphNode silu_multiply(const float* gate_up, std::int64_t n_rows, std::int64_t width, const float* out) {
  return {
      "silu_multiply", "", -1, {}, {rows(gate_up, n_rows, 2 * width, 2 * width)}, {rows(out, n_rows, width, width)}};
}

GraphNode gelu(const float* x, std::int64_t n_values) {
  const TensorRange values = rows(x, 1, n_values, n_values);
  return {"gelu", "", -1, {}, {values}, {values}};
}

GraphNode gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> picked,
                      std::int64_t width, const float* dst, std::int64_t dst_stride) {
  const auto n = static_cast<std::int64_t>(picked.size());
  const std::int64_t n_src = n == 0 ? 0 : *std::max_element(picked.begin(), picked.end()) + 1;
  return {"gather_rows", "", -1, {}, {rows(src, n_src, width, src_stride)}, {rows(dst, n, width, dst_stride)}};
}

GraphNode argmax(const float* logits, std::int64_t stride, std::int64_t n_rows, std::int64_t n_choices,
                 const std::int32_t* ids) {
  return {"argmax", "", -1, {}, {rows(logits, n_rows, n_choices, stride)}, {whole("ids", ids, n_rows, 1)}};
}

GraphNode sample(const float* logits, std::int64_t stride, std::int64_t n_rows, std::int64_t n_choices,
                 const std::int32_t* ids) {
  return {"sample", "", -1, {}, {rows(logits, n_rows, n_choices, stride)}, {whole("ids", ids, n_rows, 1)}};
}

}  // namespace kvlab::nodes
