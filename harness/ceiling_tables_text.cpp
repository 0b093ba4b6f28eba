// The tables of ceilings for the terminal and as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/ceiling_tables.h"
#include "harness/report_fields.h"
#include "harness/text_table.h"

namespace kvlab {
namespace {

using nlohmann::ordered_json;
using Lines = std::vector<std::vector<std::string>>;

std::string bandwidth_text(const std::vector<BandwidthRow>& rows) {
  Lines lines = {{"working set", "threads", "read GB/s", "write GB/s", "copy GB/s"}};
  for (const BandwidthRow& row : rows) {
    lines.push_back({size_text(row.working_set_bytes), std::to_string(row.threads),
                     fmt::format("{:.1f}", row.rates.read_bytes_per_s / 1e9),
                     fmt::format("{:.1f}", row.rates.write_bytes_per_s / 1e9),
                     fmt::format("{:.1f}", row.rates.copy_bytes_per_s / 1e9)});
  }
  return "Bandwidth (copy: bytes read + bytes written)\n" + aligned(lines, 0);
}

std::string barriers_text(const std::vector<BarrierRow>& rows) {
  Lines lines = {{"threads", "parallel region us", "barrier us"}};
  for (const BarrierRow& row : rows) {
    lines.push_back({std::to_string(row.threads), fmt::format("{:.2f}", row.times.fork_join_s * 1e6),
                     fmt::format("{:.2f}", row.times.barrier_s * 1e6)});
  }
  return "Starting and joining threads\n" + aligned(lines, 0);
}

/// "-" for what was not measured.
std::string gigas_text(double per_s) { return per_s > 0 ? fmt::format("{:.1f}", per_s / 1e9) : "-"; }

}  // namespace

std::string size_text(std::int64_t bytes) {
  constexpr double kMebibyte = 1024 * 1024;
  const auto size = static_cast<double>(bytes);
  return size < kMebibyte ? fmt::format("{:.0f} KiB", size / 1024) : fmt::format("{:.0f} MiB", size / kMebibyte);
}

std::string products_text(const std::vector<ProductRow>& rows) {
  Lines lines = {{"weights", "rows", "GFLOP/s", "weights GB/s"}};
  for (const ProductRow& row : rows) {
    lines.push_back({std::string(dtype_name(row.weight_dtype)), std::to_string(row.n_rows), gigas_text(row.flops_per_s),
                     gigas_text(row.weight_bytes_per_s)});
  }
  return "Matrix products, weights from beyond the caches\n" + aligned(lines, 1);
}

std::string overhead_text(const HarnessOverhead& overhead) {
  return fmt::format(
      "Harness overhead: {:.3f} us a step (median of {} steps of a model that does nothing; mean {:.3f}, p99 {:.3f}, "
      "max "
      "{:.1f})\n",
      overhead.median_s * 1e6, overhead.n_steps, overhead.mean_s * 1e6, overhead.p99_s * 1e6, overhead.max_s * 1e6);
}

ordered_json products_json(const std::vector<ProductRow>& rows) {
  auto list = ordered_json::array();
  for (const ProductRow& row : rows) {
    list.push_back({{"weight_dtype", dtype_name(row.weight_dtype)},
                    {"n_rows", row.n_rows},
                    {"flops_per_s", measured_or_null(row.flops_per_s)},
                    {"weight_bytes_per_s", measured_or_null(row.weight_bytes_per_s)}});
  }
  return list;
}

ordered_json overhead_json(const HarnessOverhead& overhead) {
  return {{"n_steps", overhead.n_steps},
          {"median_s", overhead.median_s},
          {"mean_s", overhead.mean_s},
          {"p99_s", overhead.p99_s},
          {"max_s", overhead.max_s}};
}

std::string ceiling_tables_text(const CeilingTables& tables) {
  return bandwidth_text(tables.bandwidth) + "\n" + products_text(tables.products) + "\n" +
         barriers_text(tables.barriers) + "\n" + overhead_text(tables.overhead);
}

ordered_json ceiling_tables_json(const CeilingTables& tables) {
  ordered_json json = {{"bandwidth", ordered_json::array()},
                       {"products", products_json(tables.products)},
                       {"barriers", ordered_json::array()}};
  for (const BandwidthRow& row : tables.bandwidth) {
    json["bandwidth"].push_back({{"threads", row.threads},
                                 {"working_set_bytes", row.working_set_bytes},
                                 {"read_bytes_per_s", row.rates.read_bytes_per_s},
                                 {"write_bytes_per_s", row.rates.write_bytes_per_s},
                                 {"copy_bytes_per_s", row.rates.copy_bytes_per_s}});
  }
  for (const BarrierRow& row : tables.barriers) {
    json["barriers"].push_back(
        {{"threads", row.threads}, {"fork_join_s", row.times.fork_join_s}, {"barrier_s", row.times.barrier_s}});
  }
  json["harness_overhead"] = overhead_json(tables.overhead);
  return json;
}

}  // namespace kvlab
