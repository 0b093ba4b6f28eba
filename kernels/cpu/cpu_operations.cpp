// Checks what a kernel may rely on, then runs it or records it.
#include "kernels/cpu/cpu_operations.h"

#include <fmt/format.h>
#include <omp.h>

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
#include "kernels/operation_nodes.h"

namespace kvlab {
namespace cpu {
namespace {

void check_weight(const HostMatrix& weight) {
  const auto n_values = static_cast<std::int64_t>(weight.values.size());
  if (weight.rows > 0 && weight.cols > 0 && n_values == weight.rows * weight.cols) return;
  throw std::invalid_argument(
      fmt::format("cannot pack a weight of {} x {} with {} values", weight.rows, weight.cols, n_values));
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
      [&] { return nodes::embed(table, ids, out, accumulate); });
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
  recording_->add(matrix.record(args, n_threads_), nodes::matmul(weight, x, x_stride, n_rows, y, y_stride, accumulate));
}

void CpuOperations::rms_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                             const float* weight, float eps, float* y, std::int64_t y_stride) {
  issue(
      threads_for(n_rows * width, n_rows, n_threads_),
      [=](Share share) {
        cpu::rms_norm({x, x_stride}, n_rows, width, weight, eps, {y, y_stride}, share);
      },
      [&] { return nodes::norm("rms_norm", x, x_stride, n_rows, width, y, y_stride); });
}

void CpuOperations::layer_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                               const float* weight, const float* bias, float eps, float* y, std::int64_t y_stride) {
  issue(
      threads_for(n_rows * width, n_rows, n_threads_),
      [=](Share share) {
        cpu::layer_norm({x, x_stride}, n_rows, width, weight, bias, eps, {y, y_stride}, share);
      },
      [&] { return nodes::norm("layer_norm", x, x_stride, n_rows, width, y, y_stride); });
}

void CpuOperations::rope(float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t n_heads,
                         std::int64_t head_dim, const std::int32_t* positions, const float* cos_sin) {
  issue(
      threads_for(n_rows * n_heads * head_dim, n_rows, n_threads_),
      [=](Share share) {
        cpu::rope({x, x_stride}, n_rows, n_heads, head_dim, positions, cos_sin, share);
      },
      [&] { return nodes::rope(x, x_stride, n_rows, n_heads * head_dim, positions); });
}

void CpuOperations::append(const float* k, const float* v, std::int64_t stride, std::span<const SequenceSpan> seqs,
                           std::int64_t n_kv_heads, std::int64_t head_dim, const KvView& view) {
  const AppendArgs args{k, v, stride, seqs, n_kv_heads, head_dim, view};
  if (recording_ == nullptr) {
    cpu::append(args);
  } else {
    recording_->add(std::make_unique<AppendTask>(args), nodes::append(k, v, stride, seqs, n_kv_heads * head_dim, view));
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

AttentionWork CpuOperations::attention(AttentionKind kind, const AttentionArgs& args) {
  [[maybe_unused]] const TestSlowdown<kSlowedKernel == "attention"> slowdown;
  check_heads(args);
  if (recording_ != nullptr) {
    std::unique_ptr<AttentionCall> call = new_attention(kind);
    call->set_args(args);
    const Scratch& scratch = kind == AttentionKind::naive ? naive_scratch_ : fused_scratch_;
    recording_->add_attention(std::move(call), nodes::attention(kind, args, &scratch));
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
      [&] { return nodes::silu_multiply(gate_up, n_rows, width, out); });
}

void CpuOperations::gelu(float* x, std::int64_t n_values) {
  issue(
      gelu_lanes(n_values, n_threads_), [=](Share share) { cpu::gelu(x, n_values, share); },
      [&] { return nodes::gelu(x, n_values); });
}

void CpuOperations::gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> indices,
                                std::int64_t width, float* dst, std::int64_t dst_stride) {
  issue(
      1, [=](Share) { cpu::gather_rows(src, src_stride, indices, width, dst, dst_stride); },
      [&] { return nodes::gather_rows(src, src_stride, indices, width, dst, dst_stride); });
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
