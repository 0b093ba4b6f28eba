// Checks what a kernel may rely on, then runs it or records it with the tensors that it touches.
#include "kernels/cpu/cpu_operations.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "kernels/cpu/activations.h"
#include "kernels/cpu/kv_rows.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/packed_bf16.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/test_slowdown.h"
#include "kernels/cpu/threads.h"
#include "kernels/error.h"

namespace kvlab {
namespace cpu {
namespace {

void check_weight(const HostMatrix& weight) {
  const auto n_values = static_cast<std::int64_t>(weight.values.size());
  if (weight.rows > 0 && weight.cols > 0 && n_values == weight.rows * weight.cols) return;
  throw std::invalid_argument(
      fmt::format("cannot pack a weight of {} x {} with {} values", weight.rows, weight.cols, n_values));
}

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

/// Sees that the pages are there before the region opens.
class AppendTask final : public Task {
 public:
  explicit AppendTask(const AppendArgs& args) : args_(args) {}
  Lanes prepare() override {
    check_view(args_.view, args_.seqs);
    return {};
  }
  void run(int /*stage*/, Share /*share*/) override { append(args_); }

 private:
  AppendArgs args_;
};

GraphNode append_node(const AppendArgs& args) {
  const std::int64_t width = args.n_kv_heads * args.head_dim;
  const std::int64_t n_new = step_rows(args.seqs);
  const std::int64_t n_cached = cached_rows(args.seqs);
  GraphNode node{"append", "", -1, {}, {rows(args.k, n_new, width, args.stride, args.v == nullptr ? "Q" : "K")}, {}};
  node.writes.push_back(whole(args.v == nullptr ? "Q cache" : "K cache", args.view.k, n_cached, width));
  if (args.v == nullptr) return node;
  node.reads.push_back(rows(args.v, n_new, width, args.stride, "V"));
  node.writes.push_back(whole("V cache", args.view.v, n_cached, width));
  return node;
}

const CpuMatrix& own_matrix(const PackedMatrix& weight) {
  const auto* matrix = dynamic_cast<const CpuMatrix*>(&weight);
  if (matrix == nullptr) throw std::invalid_argument("matmul: the matrix was not packed by this backend's pack_matrix");
  return *matrix;
}

void check_heads(const AttentionArgs& args) {
  if (args.n_kv_heads >= 1 && args.n_heads % args.n_kv_heads == 0) return;
  throw std::invalid_argument(
      fmt::format("attention: {} KV heads do not divide {} query heads", args.n_kv_heads, args.n_heads));
}

}  // namespace

CpuOperations::CpuOperations(int n_threads)
    : n_threads_(n_threads), naive_(naive_scratch_, n_threads), fused_(fused_scratch_, n_threads) {
  if (n_threads < 1) {
    throw InputError(fmt::format("the number of threads is {}; it must be at least 1", n_threads));
  }
  omp_set_num_threads(n_threads);
}

template <class Part, class Describe>
void CpuOperations::issue(int n_lanes, const Part& part, const Describe& describe) {
  if (recording_ == nullptr) {
    share_out(n_lanes, part);
  } else {
    recording_->add(std::make_unique<FixedTask<Part>>(n_lanes, part), describe());
  }
}

std::unique_ptr<Buffer> CpuOperations::allocate(std::size_t bytes) { return std::make_unique<AlignedBuffer>(bytes); }

std::unique_ptr<PackedMatrix> CpuOperations::pack_matrix(const HostMatrix& weight, DType storage) {
  check_weight(weight);
  if (storage == DType::f32) return f32_products_.pack(weight);
  return pack_bf16(weight);
}

std::unique_ptr<PackedMatrix> CpuOperations::pack_table(const HostMatrix& table, DType storage) {
  check_weight(table);
  return cpu::pack_table(table, storage);
}

void CpuOperations::embed(const PackedMatrix& table, std::span<const std::int32_t> ids, float* out, bool accumulate) {
  check_table(table);
  issue(
      1, [&table, ids, out, accumulate](Share) { cpu::embed(table, ids, out, accumulate); },
      [&] {
        const auto n = static_cast<std::int64_t>(ids.size());
        const TensorRange x = rows(out, n, table.n_in(), table.n_in());
        GraphNode node{"embed", "", -1, {table.n_out(), table.n_in()}, {whole("ids", ids.data(), n, 1)}, {x}};
        if (accumulate) node.reads.push_back(x);
        return node;
      });
}

void CpuOperations::matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows,
                           float* y, std::int64_t y_stride, const float* bias, bool accumulate) {
  [[maybe_unused]] const TestSlowdown<kSlowedKernel == "matmul"> slowdown;
  const CpuMatrix& matrix = own_matrix(weight);
  if (n_rows == 0) return;
  const ProductArgs args{x, x_stride, n_rows, y, y_stride, bias, accumulate};
  if (recording_ == nullptr) {
    matrix.multiply(args, n_threads_);
    return;
  }
  const TensorRange out = rows(y, n_rows, weight.n_out(), y_stride);
  GraphNode node{"matmul", "", -1, {weight.n_out(), weight.n_in()}, {rows(x, n_rows, weight.n_in(), x_stride)}, {out}};
  if (accumulate) node.reads.push_back(out);
  recording_->add(matrix.record(args, n_threads_), std::move(node));
}

void CpuOperations::rms_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                             const float* weight, float eps, float* y, std::int64_t y_stride) {
  issue(
      threads_for(n_rows * width, n_rows, n_threads_),
      [=](Share share) {
        cpu::rms_norm({x, x_stride}, n_rows, width, weight, eps, {y, y_stride}, share);
      },
      [&] {
        return GraphNode{
            "rms_norm", "", -1, {}, {rows(x, n_rows, width, x_stride)}, {rows(y, n_rows, width, y_stride)}};
      });
}

void CpuOperations::layer_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                               const float* weight, const float* bias, float eps, float* y, std::int64_t y_stride) {
  issue(
      threads_for(n_rows * width, n_rows, n_threads_),
      [=](Share share) {
        cpu::layer_norm({x, x_stride}, n_rows, width, weight, bias, eps, {y, y_stride}, share);
      },
      [&] {
        return GraphNode{
            "layer_norm", "", -1, {}, {rows(x, n_rows, width, x_stride)}, {rows(y, n_rows, width, y_stride)}};
      });
}

void CpuOperations::rope(float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t n_heads,
                         std::int64_t head_dim, const std::int32_t* positions, const float* cos_sin) {
  issue(
      threads_for(n_rows * n_heads * head_dim, n_rows, n_threads_),
      [=](Share share) {
        cpu::rope({x, x_stride}, n_rows, n_heads, head_dim, positions, cos_sin, share);
      },
      [&] {
        const TensorRange heads = rows(x, n_rows, n_heads * head_dim, x_stride);
        return GraphNode{"rope", "", -1, {}, {heads, whole("positions", positions, n_rows, 1)}, {heads}};
      });
}

void CpuOperations::append(const float* k, const float* v, std::int64_t stride, std::span<const SequenceSpan> seqs,
                           std::int64_t n_kv_heads, std::int64_t head_dim, const KvView& view) {
  const AppendArgs args{k, v, stride, seqs, n_kv_heads, head_dim, view};
  if (recording_ == nullptr) {
    cpu::append(args);
  } else {
    recording_->add(std::make_unique<AppendTask>(args), append_node(args));
  }
}

void CpuOperations::fill_kv(const RandomKv& values, std::int64_t n_seqs, std::int64_t n_tokens, std::int64_t n_kv_heads,
                            std::int64_t head_dim, const KvView& view) {
  const FillArgs args{values, n_seqs, n_tokens, n_kv_heads, head_dim, view};
  const std::int64_t n_rows = n_seqs * n_kv_heads * n_tokens;
  share_out(threads_for(n_rows * head_dim, n_rows, n_threads_), [&](Share share) { cpu::fill_kv(args, share); });
}

std::unique_ptr<AttentionCall> CpuOperations::new_attention(AttentionKind kind) {
  if (kind == AttentionKind::naive) return std::make_unique<NaiveAttention>(naive_scratch_, n_threads_);
  return std::make_unique<FusedAttention>(fused_scratch_, n_threads_);
}

GraphNode CpuOperations::attention_node(AttentionKind kind, const AttentionArgs& args) const {
  const bool naive = kind == AttentionKind::naive;
  const std::int64_t n_rows = step_rows(args.seqs);
  const std::int64_t n_cached = cached_rows(args.seqs);
  const std::int64_t kv_width = args.n_kv_heads * args.head_dim;
  const std::int64_t q_width = args.n_heads * args.head_dim;
  return {naive ? "attention (naive)" : "attention (fused)",
          "",
          -1,
          {},
          {rows(args.q, n_rows, q_width, args.q_stride, "Q"), whole("K", args.kv.k, n_cached, kv_width),
           whole("V", args.kv.v, n_cached, kv_width)},
          {rows(args.out, n_rows, q_width, args.out_stride),
           whole("scratch", naive ? &naive_scratch_ : &fused_scratch_, 1, 1)}};
}

AttentionWork CpuOperations::attention(AttentionKind kind, const AttentionArgs& args) {
  [[maybe_unused]] const TestSlowdown<kSlowedKernel == "attention"> slowdown;
  check_heads(args);
  if (recording_ != nullptr) {
    std::unique_ptr<AttentionCall> call = new_attention(kind);
    call->set_args(args);
    recording_->add_attention(std::move(call), attention_node(kind, args));
    return {};
  }
  AttentionCall& call = kind == AttentionKind::naive ? static_cast<AttentionCall&>(naive_) : fused_;
  call.set_args(args);
  const Lanes lanes = call.prepare();
  share_out(lanes.first, [&](Share share) { call.run(0, share); });
  if (lanes.second > 0) share_out(lanes.second, [&](Share share) { call.run(1, share); });
  return call.work();
}

std::size_t CpuOperations::attention_workspace_bytes(AttentionKind kind, const AttentionArgs& args) const {
  return kind == AttentionKind::naive ? NaiveAttention::workspace_bytes(args, n_threads_)
                                      : FusedAttention::workspace_bytes(args, n_threads_);
}

void CpuOperations::silu_multiply(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out) {
  issue(
      silu_multiply_lanes(n_rows, width, n_threads_),
      [=](Share share) { cpu::silu_multiply(gate_up, n_rows, width, out, share); },
      [&] {
        return GraphNode{"silu_multiply",
                         "",
                         -1,
                         {},
                         {rows(gate_up, n_rows, 2 * width, 2 * width)},
                         {rows(out, n_rows, width, width)}};
      });
}

void CpuOperations::gelu(float* x, std::int64_t n_values) {
  issue(
      gelu_lanes(n_values, n_threads_), [=](Share share) { cpu::gelu(x, n_values, share); },
      [&] {
        const TensorRange values = rows(x, 1, n_values, n_values);
        return GraphNode{"gelu", "", -1, {}, {values}, {values}};
      });
}

void CpuOperations::gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> indices,
                                std::int64_t width, float* dst, std::int64_t dst_stride) {
  issue(
      1, [=](Share) { cpu::gather_rows(src, src_stride, indices, width, dst, dst_stride); },
      [&] {
        const auto n = static_cast<std::int64_t>(indices.size());
        const std::int64_t n_src = n == 0 ? 0 : *std::max_element(indices.begin(), indices.end()) + 1;
        return GraphNode{
            "gather_rows", "", -1, {}, {rows(src, n_src, width, src_stride)}, {rows(dst, n, width, dst_stride)}};
      });
}

void CpuOperations::begin_recording() { recording_ = std::make_unique<CpuGraph>(n_threads_); }

void CpuOperations::name_recorded(std::string_view name, std::int64_t layer) {
  if (recording_ != nullptr) recording_->name_last(name, layer);
}

std::unique_ptr<RecordedGraph> CpuOperations::end_recording() { return std::exchange(recording_, nullptr); }

std::size_t CpuOperations::held_bytes(AttentionKind kind) const {
  return kind == AttentionKind::naive ? naive_scratch_.bytes() : fused_scratch_.bytes();
}

}  // namespace cpu

std::unique_ptr<Operations> make_cpu_operations(int n_threads) {
  return std::make_unique<cpu::CpuOperations>(n_threads);
}

}  // namespace kvlab
