// The tables of a device for the terminal and as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/device_ceilings.h"
#include "harness/report_fields.h"
#include "harness/text_table.h"

namespace kvlab {
namespace {

using nlohmann::ordered_json;

constexpr const char* kNoClock = "this device has no clock: everything ran, and nothing was timed";

std::string scaled(double value, double unit, int digits) {
  return value > 0 ? fmt::format("{:.{}f}", value / unit, digits) : "-";
}

std::string bandwidth_text(const std::vector<DeviceBandwidthRow>& rows) {
  std::vector<std::vector<std::string>> lines = {{"working set", "L2", "read GB/s", "write GB/s", "copy GB/s"}};
  for (const DeviceBandwidthRow& row : rows) {
    lines.push_back({size_text(row.working_set_bytes), row.cold ? "cold" : "warm",
                     scaled(row.rates.read_bytes_per_s, 1e9, 1), scaled(row.rates.write_bytes_per_s, 1e9, 1),
                     scaled(row.rates.copy_bytes_per_s, 1e9, 1)});
  }
  return "Bandwidth (copy: bytes read + bytes written)\n" + aligned(lines, 0);
}

std::string launches_text(const LaunchTimes& launches) {
  std::vector<std::vector<std::string>> lines = {{"an empty kernel", "us"}};
  lines.push_back({"launched one by one", scaled(launches.eager_s, 1e-6, 2)});
  lines.push_back({"in a graph", scaled(launches.graph_s, 1e-6, 2)});
  lines.push_back({"and back to the host", scaled(launches.round_trip_s, 1e-6, 2)});
  lines.push_back({"an event instead", scaled(launches.event_s, 1e-6, 2)});
  return "Launches\n" + aligned(lines, 1);
}

}  // namespace

std::string device_tables_text(const DeviceTables& tables) {
  std::string text = fmt::format("{}\n{}\n{}", bandwidth_text(tables.bandwidth), products_text(tables.products),
                                 launches_text(tables.launches));
  text += tables.timed ? fmt::format("\n{}", overhead_text(tables.overhead)) : fmt::format("\n{}\n", kNoClock);
  return text;
}

ordered_json device_tables_json(const DeviceTables& tables) {
  ordered_json json = {{"reason", tables.timed ? ordered_json(nullptr) : ordered_json(kNoClock)},
                       {"bandwidth", ordered_json::array()},
                       {"products", products_json(tables.products)},
                       {"barriers", ordered_json::array()}};
  for (const DeviceBandwidthRow& row : tables.bandwidth) {
    json["bandwidth"].push_back({{"threads", nullptr},
                                 {"l2", row.cold ? "cold" : "warm"},
                                 {"working_set_bytes", row.working_set_bytes},
                                 {"read_bytes_per_s", measured_or_null(row.rates.read_bytes_per_s)},
                                 {"write_bytes_per_s", measured_or_null(row.rates.write_bytes_per_s)},
                                 {"copy_bytes_per_s", measured_or_null(row.rates.copy_bytes_per_s)}});
  }
  json["launches"] = {{"eager_s", measured_or_null(tables.launches.eager_s)},
                      {"graph_s", measured_or_null(tables.launches.graph_s)},
                      {"event_s", measured_or_null(tables.launches.event_s)},
                      {"round_trip_s", measured_or_null(tables.launches.round_trip_s)}};
  json["harness_overhead"] = tables.timed ? overhead_json(tables.overhead) : ordered_json(nullptr);
  return json;
}

}  // namespace kvlab
