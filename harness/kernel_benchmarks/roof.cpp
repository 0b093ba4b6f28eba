#include "harness/kernel_benchmarks/roof.h"

#include <fmt/format.h>

namespace kvlab {

Roof roof_of(const CallCost& cost, const Ceilings& ceilings) {
  const bool reads = cost.traffic == Traffic::read;
  const double bytes_per_s = reads ? ceilings.read_bytes_per_s : ceilings.copy_bytes_per_s;
  const bool f32 = cost.product == DType::f32;
  const double flops_per_s = f32 ? ceilings.gemm_flops_per_s_f32 : ceilings.gemm_flops_per_s_bf16;
  const double memory_s = static_cast<double>(cost.bytes) / bytes_per_s;
  const double arithmetic_s = static_cast<double>(cost.flops) / flops_per_s;
  if (memory_s >= arithmetic_s) {
    return {memory_s, fmt::format("of {} {:.1f} GB/s", reads ? "read" : "copy", bytes_per_s / 1e9)};
  }
  return {arithmetic_s, fmt::format("of {} product {:.1f} GFLOP/s", dtype_name(cost.product), flops_per_s / 1e9)};
}

void count(const CallCost& cost, const Roof& roof, benchmark::State& state) {
  using benchmark::Counter;
  const auto rate = Counter::kIsIterationInvariantRate;
  if (cost.flops > 0) state.counters["flops_per_s"] = Counter(static_cast<double>(cost.flops), rate);
  state.counters["bytes_per_s"] = Counter(static_cast<double>(cost.bytes), rate);
  state.counters["ceiling_fraction"] = Counter(roof.seconds, rate);
  state.SetLabel(roof.name);
}

}  // namespace kvlab
