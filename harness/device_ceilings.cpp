// Measures what is wanted, number by number.
#include "harness/device_ceilings.h"

#include <fmt/format.h>

#include "harness/device_passes.h"
#include "harness/interrupt.h"
#include "harness/round.h"
#include "harness/statistics.h"

namespace kvlab {
namespace {

using Listener = std::function<void(const std::string&)>;

double large_product_flops_per_s(Operations& ops, DType dtype, const DeviceLimits& limits) {
  const std::int64_t side = side_that_fits(*ops.probes(), limits.report_side);
  return DeviceProducts(ops, dtype, side, side, DeviceProducts::Weights::one)
      .measure(side, 1, limits.n_passes)
      .flops_per_s;
}

std::vector<DeviceBandwidthRow> measure_bandwidth(Operations& ops, const DeviceLimits& limits) {
  const DeviceArena arena(ops, limits);
  std::vector<DeviceBandwidthRow> rows;
  for (const std::int64_t bytes : device_working_sets(limits, *ops.probes())) {
    stop_if_interrupted();
    if (bytes < arena.bytes()) rows.push_back({bytes, false, arena.warm(bytes)});
    rows.push_back({bytes, true, arena.cold(bytes)});
  }
  return rows;
}

std::vector<ProductRow> measure_products(Operations& ops, const DeviceLimits& limits, const Listener& progress) {
  const std::int64_t side = side_that_fits(*ops.probes(), limits.side);
  std::vector<ProductRow> rows;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    progress(fmt::format("products with {} weights", dtype_name(dtype)));
    DeviceProducts products(ops, dtype, side, limits.most_rows, DeviceProducts::Weights::beyond_l2);
    for (std::int64_t n_rows = 1; n_rows <= limits.most_rows; n_rows *= 2) {
      stop_if_interrupted();
      rows.push_back(products.measure(n_rows, limits.n_products, limits.n_passes));
    }
  }
  return rows;
}

}  // namespace

bool has_device_clock(Operations& ops) {
  const std::unique_ptr<TimeMark> before = ops.mark();
  return ops.probes() != nullptr && before != nullptr && ops.mark()->since_s(*before).has_value();
}

std::vector<std::int64_t> device_working_sets(const DeviceLimits& limits, const DeviceProbes& device) {
  const std::int64_t most = arena_bytes(device, limits);
  std::vector<std::int64_t> sets;
  for (std::int64_t bytes = limits.least_bytes; bytes < most; bytes *= 4) sets.push_back(bytes);
  sets.push_back(most);
  return sets;
}

Ceilings measure_device_ceilings(Operations& ops, const DeviceLimits& limits) {
  Ceilings ceilings;
  {
    const DeviceArena arena(ops, limits);
    const StreamRates rates = arena.cold(arena.bytes());
    ceilings.read_bytes_per_s = rates.read_bytes_per_s;
    ceilings.write_bytes_per_s = rates.write_bytes_per_s;
    ceilings.copy_bytes_per_s = rates.copy_bytes_per_s;
  }
  ceilings.gemm_flops_per_s_f32 = large_product_flops_per_s(ops, DType::f32, limits);
  ceilings.gemm_flops_per_s_bf16 = large_product_flops_per_s(ops, DType::bf16, limits);
  const LaunchTimes launches = measure_launches(ops, limits);
  ceilings.launch_s = launches.eager_s;
  ceilings.graph_launch_s = launches.graph_s;
  ceilings.event_s = launches.event_s;
  ceilings.launch_round_trip_s = launches.round_trip_s;
  if (has_device_clock(ops)) ceilings.harness_overhead_s = median(time_empty_steps(limits.empty_steps));
  return ceilings;
}

DeviceTables measure_device_tables(Operations& ops, const DeviceLimits& limits, const Listener& progress) {
  DeviceTables tables;
  tables.timed = has_device_clock(ops);
  progress("bandwidth");
  tables.bandwidth = measure_bandwidth(ops, limits);
  tables.products = measure_products(ops, limits, progress);
  progress("launches");
  tables.launches = measure_launches(ops, limits);
  progress("harness overhead");
  if (tables.timed) tables.overhead = measure_harness_overhead(limits.empty_steps);
  return tables;
}

}  // namespace kvlab
