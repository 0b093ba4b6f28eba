// Measures the tables, row by row.
#include "harness/ceiling_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "harness/interrupt.h"
#include "harness/machine.h"
#include "harness/round.h"
#include "harness/statistics.h"
#include "kernels/operations.h"

namespace kvlab {
namespace {

using Listener = std::function<void(const std::string&)>;

std::vector<BandwidthRow> measure_bandwidth(int threads, const CeilingTableLimits& limits, const Listener& progress) {
  const std::int64_t most_bytes = limits.most_bytes > 0 ? limits.most_bytes : main_memory_bytes();
  std::vector<BandwidthRow> rows;
  for (const int count : thread_counts(threads)) {
    progress(fmt::format("bandwidth, {} of {} threads", count, threads));
    for (const std::int64_t bytes : working_sets(count, most_bytes)) {
      stop_if_interrupted();
      MemoryStreams streams(bytes, count);
      rows.push_back({count, streams.working_set_bytes(), streams.measure(limits.budget_s)});
    }
  }
  return rows;
}

/// A ring of weights that together exceed the last-level cache, as the layers of a model do.
class WeightRing {
 public:
  WeightRing(Operations& ops, DType dtype, std::int64_t side) : side_(side) {
    const std::int64_t bytes = side * side * static_cast<std::int64_t>(dtype_bytes(dtype));
    const std::int64_t room = read_machine().memory_available_bytes / 8;
    const std::int64_t wanted = 2 * last_level_cache_bytes() / bytes + 1;
    const std::int64_t count = room > 0 ? std::clamp<std::int64_t>(room / bytes, 1, wanted) : wanted;
    const HostMatrix values = varied_matrix(side, side);
    for (std::int64_t i = 0; i < count; ++i) weights_.push_back(ops.pack_matrix(values, dtype));
  }

  const PackedMatrix& next() { return *weights_[turn_++ % weights_.size()]; }
  std::int64_t side() const { return side_; }

 private:
  std::int64_t side_;
  std::size_t turn_ = 0;
  std::vector<std::unique_ptr<PackedMatrix>> weights_;  // each [side, side]
};

ProductRow measure_product(Operations& ops, WeightRing& ring, DType dtype, std::int64_t n_rows, double budget_s) {
  const std::int64_t side = ring.side();
  const HostMatrix x = varied_matrix(n_rows, side);
  HostMatrix y(n_rows, side);
  const double seconds = fastest_seconds(
      budget_s, [&] { ops.matmul(ring.next(), x.values.data(), side, n_rows, y.values.data(), side, nullptr, false); });
  const auto weights = static_cast<double>(side * side);
  return {dtype, n_rows, 2 * weights * static_cast<double>(n_rows) / seconds,
          weights * static_cast<double>(dtype_bytes(dtype)) / seconds};
}

std::vector<ProductRow> measure_products(int threads, const CeilingTableLimits& limits, const Listener& progress) {
  const std::unique_ptr<Operations> ops = make_cpu_operations(threads);
  std::vector<ProductRow> rows;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    progress(fmt::format("products with {} weights", dtype_name(dtype)));
    WeightRing ring(*ops, dtype, limits.side);
    for (std::int64_t n_rows = 1; n_rows <= limits.most_rows; n_rows *= 2) {
      stop_if_interrupted();
      rows.push_back(measure_product(*ops, ring, dtype, n_rows, limits.budget_s));
    }
  }
  return rows;
}

std::vector<BarrierRow> measure_all_barriers(int threads, const CeilingTableLimits& limits, const Listener& progress) {
  progress("barriers");
  std::vector<BarrierRow> rows;
  for (const int count : thread_counts(threads)) {
    stop_if_interrupted();
    rows.push_back({count, measure_barriers(count, limits.budget_s)});
  }
  return rows;
}

}  // namespace

HarnessOverhead measure_harness_overhead(std::int64_t n_steps) {
  const std::vector<double> step_s = time_empty_steps(n_steps);
  return {n_steps, median(step_s), mean(step_s), percentile(step_s, 99),
          *std::max_element(step_s.begin(), step_s.end())};
}

std::vector<int> thread_counts(int most) {
  std::vector<int> counts;
  for (int count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

std::vector<std::int64_t> working_sets(int threads, std::int64_t most_bytes) {
  constexpr std::int64_t kFirstBytesAThread = 16 * 1024;  // half of the smallest first-level cache in use
  std::vector<std::int64_t> sets;
  for (std::int64_t bytes = kFirstBytesAThread * threads; bytes < most_bytes; bytes *= 4) sets.push_back(bytes);
  sets.push_back(most_bytes);
  return sets;
}

CeilingTables measure_ceiling_tables(int threads, const CeilingTableLimits& limits, const Listener& progress) {
  CeilingTables tables;
  tables.bandwidth = measure_bandwidth(threads, limits, progress);
  tables.products = measure_products(threads, limits, progress);
  tables.barriers = measure_all_barriers(threads, limits, progress);
  progress("harness overhead");
  tables.overhead = measure_harness_overhead(limits.overhead_steps);
  return tables;
}

}  // namespace kvlab
