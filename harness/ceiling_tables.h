// The ceilings by working set, threads, rows and weight type: what `kvlab ceilings` prints. Slower to make than the few
// numbers that a report divides by (ceilings.h).
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/ceilings.h"
#include "harness/memory_streams.h"
#include "kernels/dtype.h"

namespace kvlab {

struct BandwidthRow {
  int threads = 1;
  std::int64_t working_set_bytes = 0;  // of all threads together
  StreamRates rates;
};

/// Products of n_rows rows with a square weight that the caches have lost since its last turn, as in a model.
struct ProductRow {
  DType weight_dtype = DType::f32;
  std::int64_t n_rows = 0;
  double flops_per_s = 0;
  double weight_bytes_per_s = 0;
};

struct BarrierRow {
  int threads = 1;
  BarrierTimes times;
};

/// Of the measured loop over a model that does nothing (round.h).
struct HarnessOverhead {
  std::int64_t n_steps = 0;
  double median_s = 0;
  double mean_s = 0;
  double p99_s = 0;
  double max_s = 0;  // the system stopped the program once, or the list of times grew
};

struct CeilingTables {
  std::vector<BandwidthRow> bandwidth;
  std::vector<ProductRow> products;
  std::vector<BarrierRow> barriers;
  HarnessOverhead overhead;
};

struct CeilingTableLimits {
  double budget_s = 0.1;         // of one row of a table
  std::int64_t most_bytes = 0;   // largest working set; 0: main_memory_bytes()
  std::int64_t side = 2048;      // of the square weights
  std::int64_t most_rows = 512;  // of a product
  std::int64_t overhead_steps = 100'000;
};

/// 1, 2, 4, … and `most`.
std::vector<int> thread_counts(int most);
/// From what fits the first-level cache of each thread, times four, to `most_bytes`.
std::vector<std::int64_t> working_sets(int threads, std::int64_t most_bytes);

/// `progress` hears what is measured next. Throws Interrupted between rows.
CeilingTables measure_ceiling_tables(int threads, const CeilingTableLimits& limits,
                                     const std::function<void(const std::string&)>& progress);

HarnessOverhead measure_harness_overhead(std::int64_t n_steps);

// Parts of the tables that a device has too (device_ceilings.h).
std::string size_text(std::int64_t bytes);
std::string products_text(const std::vector<ProductRow>& rows);
std::string overhead_text(const HarnessOverhead& overhead);
nlohmann::ordered_json products_json(const std::vector<ProductRow>& rows);
nlohmann::ordered_json overhead_json(const HarnessOverhead& overhead);

std::string ceiling_tables_text(const CeilingTables& tables);
nlohmann::ordered_json ceiling_tables_json(const CeilingTables& tables);

}  // namespace kvlab
