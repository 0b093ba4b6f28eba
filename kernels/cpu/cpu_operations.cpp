// Checks what a kernel may rely on, then calls it.
#include "kernels/cpu/cpu_operations.h"

#include <fmt/format.h>
#include <omp.h>

#include <stdexcept>

#include "kernels/cpu/activations.h"
#include "kernels/cpu/kv_rows.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/packed_bf16.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/test_slowdown.h"
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

}  // namespace

CpuOperations::CpuOperations(int n_threads) : n_threads_(n_threads) {
  if (n_threads < 1) {
    throw InputError(fmt::format("the number of threads is {}; it must be at least 1", n_threads));
  }
  omp_set_num_threads(n_threads);
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
  cpu::embed(table, ids, out, accumulate);
}

void CpuOperations::matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows,
                           float* y, std::int64_t y_stride, const float* bias, bool accumulate) {
  [[maybe_unused]] const TestSlowdown<kSlowedKernel == "matmul"> slowdown;
  const auto* matrix = dynamic_cast<const CpuMatrix*>(&weight);
  if (matrix == nullptr) throw std::invalid_argument("matmul: the matrix was not packed by this backend's pack_matrix");
  if (n_rows > 0) matrix->multiply({x, x_stride, n_rows, y, y_stride, bias, accumulate}, n_threads_);
}

void CpuOperations::rms_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                             const float* weight, float eps, float* y, std::int64_t y_stride) {
  cpu::rms_norm({x, x_stride}, n_rows, width, weight, eps, {y, y_stride}, n_threads_);
}

void CpuOperations::layer_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                               const float* weight, const float* bias, float eps, float* y, std::int64_t y_stride) {
  cpu::layer_norm({x, x_stride}, n_rows, width, weight, bias, eps, {y, y_stride}, n_threads_);
}

void CpuOperations::rope(float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t n_heads,
                         std::int64_t head_dim, const std::int32_t* positions, const float* cos_sin) {
  cpu::rope({x, x_stride}, n_rows, n_heads, head_dim, positions, cos_sin, n_threads_);
}

void CpuOperations::append(const float* k, const float* v, std::int64_t stride, std::span<const SequenceSpan> seqs,
                           std::int64_t n_kv_heads, std::int64_t head_dim, const KvView& view) {
  cpu::append(k, v, stride, seqs, n_kv_heads, head_dim, view);
}

AttentionWork CpuOperations::attention(AttentionKind kind, const AttentionArgs& args) {
  [[maybe_unused]] const TestSlowdown<kSlowedKernel == "attention"> slowdown;
  if (args.n_kv_heads < 1 || args.n_heads % args.n_kv_heads != 0) {
    throw std::invalid_argument(
        fmt::format("attention: {} KV heads do not divide {} query heads", args.n_kv_heads, args.n_heads));
  }
  check_view(args.kv, args.seqs);
  return kind == AttentionKind::naive ? naive_.run(args, n_threads_) : fused_.run(args, n_threads_);
}

std::size_t CpuOperations::attention_workspace_bytes(AttentionKind kind, const AttentionArgs& args) const {
  return kind == AttentionKind::naive ? NaiveAttention::workspace_bytes(args, n_threads_)
                                      : FusedAttention::workspace_bytes(args, n_threads_);
}

void CpuOperations::silu_multiply(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out) {
  cpu::silu_multiply(gate_up, n_rows, width, out, n_threads_);
}

void CpuOperations::gelu(float* x, std::int64_t n_values) { cpu::gelu(x, n_values, n_threads_); }

void CpuOperations::gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> rows,
                                std::int64_t width, float* dst, std::int64_t dst_stride) {
  cpu::gather_rows(src, src_stride, rows, width, dst, dst_stride);
}

std::size_t CpuOperations::held_bytes(AttentionKind kind) const {
  return kind == AttentionKind::naive ? naive_.held_bytes() : fused_.held_bytes();
}

}  // namespace cpu

std::unique_ptr<Operations> make_cpu_operations(int n_threads) {
  return std::make_unique<cpu::CpuOperations>(n_threads);
}

}  // namespace kvlab
