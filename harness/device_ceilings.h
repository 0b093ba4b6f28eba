// What a device reads, writes, copies and multiplies per second, and what launches cost, by its own clock: the few
// numbers that a report divides by, and tables of them by working set and rows for `kvlab ceilings`.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/ceiling_tables.h"
#include "harness/ceilings.h"
#include "harness/memory_streams.h"
#include "kernels/operations.h"

namespace kvlab {

/// Sizes that suit a GPU. A device without a clock takes every way once and gets no numbers: 0 in what follows.
struct DeviceLimits {
  std::int64_t least_bytes = std::int64_t{1} << 20;  // smallest working set
  std::int64_t most_bytes = std::int64_t{1} << 30;   // largest; more where the L2 cache asks for it
  std::int64_t pass_bytes = std::int64_t{1} << 28;   // that a launch over a warm set reads at least
  std::int64_t report_side = 8192;                   // of the product that a report divides by
  std::int64_t side = 4096;                          // of the square weights of the table
  std::int64_t most_rows = 8192;                     // of the table's products
  int n_products = 8;                                // in one recorded graph of the table, at least
  int n_launches = 1000;
  int n_passes = 12;  // the fastest counts
  std::int64_t empty_steps = 2000;
};

struct DeviceBandwidthRow {
  std::int64_t working_set_bytes = 0;
  bool cold = false;  // a launch for each of the sets that together have left L2; else one goes over the set repeatedly
  StreamRates rates;
};

struct LaunchTimes {
  double eager_s = 0;       // of an empty kernel among others that are launched one by one
  double graph_s = 0;       // the same within a graph
  double event_s = 0;       // of an event between two others
  double round_trip_s = 0;  // by the host's clock: an empty kernel, and the wait until its end is known
};

struct DeviceTables {
  bool timed = false;
  std::vector<DeviceBandwidthRow> bandwidth;
  std::vector<ProductRow> products;
  LaunchTimes launches;
  HarnessOverhead overhead;
};

/// Whether the backend is on a device that has a clock.
bool has_device_clock(Operations& ops);

/// From limits.least_bytes, times four, to the largest.
std::vector<std::int64_t> device_working_sets(const DeviceLimits& limits, const DeviceProbes& device);

/// The fastest of several passes each, over memory that no cache holds. `ops` has probes. Takes a few seconds on a GPU,
/// and half of the memory that is free at most. Throws OutOfMemory when that is not there after all.
Ceilings measure_device_ceilings(Operations& ops, const DeviceLimits& limits = {});

/// `progress` hears what is measured next. Throws Interrupted between rows, and OutOfMemory as above.
DeviceTables measure_device_tables(Operations& ops, const DeviceLimits& limits,
                                   const std::function<void(const std::string&)>& progress);

std::string device_tables_text(const DeviceTables& tables);
/// With the keys of ceiling_tables_json; null where nothing was measured.
nlohmann::ordered_json device_tables_json(const DeviceTables& tables);

}  // namespace kvlab
