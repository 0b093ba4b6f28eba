#include "harness/device_ceilings.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/random.h"

namespace kvlab {
namespace {

constexpr int kPasses = 12;
constexpr std::size_t kStreamBytes = std::size_t{1} << 29;

/// Seconds of the fastest pass.
template <class Pass>
double fastest_s(Operations& ops, const Pass& pass) {
  double fastest = 0;
  for (int i = 0; i < kPasses; ++i) {
    const std::unique_ptr<TimeMark> before = ops.mark();
    pass();
    const double seconds = ops.mark()->since_s(*before).value();
    if (i == 0 || seconds < fastest) fastest = seconds;
  }
  return fastest;
}

bool has_clock(Operations& ops) {
  const std::unique_ptr<TimeMark> before = ops.mark();
  return before != nullptr && ops.mark()->since_s(*before).has_value();
}

double read_bytes_per_s(Operations& ops) {
  const std::unique_ptr<Buffer> memory = ops.allocate(kStreamBytes);
  return static_cast<double>(kStreamBytes) / fastest_s(ops, [&] { ops.read_memory(memory->data(), memory->bytes()); });
}

/// Bytes read and written.
double copy_bytes_per_s(Operations& ops) {
  constexpr std::int64_t kWidth = 4096;
  constexpr auto kRows = static_cast<std::int64_t>(kStreamBytes / sizeof(float)) / kWidth;
  const std::unique_ptr<Buffer> from = ops.allocate(kStreamBytes);
  const std::unique_ptr<Buffer> to = ops.allocate(kStreamBytes);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(kRows));
  std::iota(rows.begin(), rows.end(), 0);
  ops.begin_step();
  const double seconds = fastest_s(ops, [&] {
    ops.gather_rows(static_cast<const float*>(from->data()), kWidth, rows, kWidth, static_cast<float*>(to->data()),
                    kWidth);
  });
  return 2.0 * static_cast<double>(kStreamBytes) / seconds;
}

/// A product so large that the rounding of x to bf16, which is part of it, counts little.
double gemm_flops_per_s(Operations& ops, DType dtype) {
  constexpr std::int64_t kSide = 8192;  // rows of x, and its columns
  constexpr std::int64_t kOutputs = 2 * kSide;
  const RandomRows of_weight{{1, 0.0, 0.02}, kOutputs};
  const RandomRows of_x{{2, 0.0, 1.0}, kSide};
  const std::unique_ptr<PackedMatrix> weight = ops.pack_random_matrix({&of_weight, 1}, kSide, dtype);
  const std::unique_ptr<PackedMatrix> values = ops.pack_random_table({&of_x, 1}, kSide, DType::f32);
  const std::unique_ptr<Buffer> x = ops.allocate(static_cast<std::size_t>(kSide * kSide) * sizeof(float));
  const std::unique_ptr<Buffer> y = ops.allocate(static_cast<std::size_t>(kSide * kOutputs) * sizeof(float));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(kSide));
  std::iota(ids.begin(), ids.end(), 0);
  ops.begin_step();
  ops.embed(*values, ids, static_cast<float*>(x->data()), false);
  const double seconds = fastest_s(ops, [&] {
    ops.matmul(*weight, static_cast<const float*>(x->data()), kSide, kSide, static_cast<float*>(y->data()), kOutputs,
               nullptr, false);
  });
  return 2.0 * static_cast<double>(kSide * kSide * kOutputs) / seconds;
}

}  // namespace

std::optional<Ceilings> measure_device_ceilings(Operations& ops) {
  if (!has_clock(ops)) return std::nullopt;
  Ceilings ceilings;
  ceilings.read_bytes_per_s = read_bytes_per_s(ops);
  ceilings.copy_bytes_per_s = copy_bytes_per_s(ops);
  ceilings.gemm_flops_per_s_f32 = gemm_flops_per_s(ops, DType::f32);
  ceilings.gemm_flops_per_s_bf16 = gemm_flops_per_s(ops, DType::bf16);
  return ceilings;
}

}  // namespace kvlab
