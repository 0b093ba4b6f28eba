// The ceilings of an emulated device: what runs without a clock, and what comes out where bytes, launches and looks at
// the clock are the clock.
#include "harness/device_ceilings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/ceilings_json.h"
#include "harness/device_passes.h"
#include "kernels/cuda_emulation/backend.h"

namespace kvlab {
namespace {

using cuda::emulation::Device;
using cuda::emulation::make_emulated_operations;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kLeast = 8 << 10;
constexpr std::int64_t kArena = 8 * (16 << 10);  // of the emulated device's L2

DeviceLimits small() {
  DeviceLimits limits;
  limits.least_bytes = kLeast;
  limits.most_bytes = kLeast;
  limits.pass_bytes = 4 * kLeast;
  limits.report_side = 32;
  limits.side = 64;
  limits.most_rows = 2;
  limits.n_products = 3;
  limits.n_launches = 10;
  limits.n_passes = 2;
  limits.empty_steps = 10;
  return limits;
}

/// Rates and times are the fractions of these documents.
void expect_no_number(const nlohmann::ordered_json& json, const std::string& key) {
  EXPECT_TRUE(!json.is_number_float()) << key << " " << json;
  if (!json.is_structured()) return;
  for (const auto& item : json.items()) expect_no_number(item.value(), key + "/" + item.key());
}

TEST(DeviceCeilings, SetsGoFromTheLeastToBeyondL2) {
  Device device;
  const auto ops = make_emulated_operations(device);
  EXPECT_EQ(arena_bytes(*ops->probes(), small()), kArena);
  EXPECT_THAT(device_working_sets(small(), *ops->probes()), ElementsAre(8 << 10, 32 << 10, 128 << 10));
  DeviceLimits large;
  large.least_bytes = 1 << 20;
  EXPECT_THAT(device_working_sets(large, *ops->probes()), ElementsAre(1 << 20, 4 << 20)) << "a quarter of what is free";
  EXPECT_EQ(side_that_fits(*ops->probes(), 8192), 512) << "four of 1 MiB are less than half of 16 MiB";
  EXPECT_EQ(side_that_fits(*ops->probes(), 32), 32);
}

TEST(DeviceCeilings, WithoutAClockEverythingRunsOnceAndNothingIsANumber) {
  Device device;
  const auto ops = make_emulated_operations(device);
  EXPECT_FALSE(has_device_clock(*ops));
  EXPECT_FALSE(has_device_clock(*make_cpu_operations(1)));
  std::vector<std::string> heard;
  const DeviceTables tables =
      measure_device_tables(*ops, small(), [&](const std::string& what) { heard.push_back(what); });
  EXPECT_THAT(heard, ElementsAre("bandwidth", "products with f32 weights", "products with bf16 weights", "launches",
                                 "harness overhead"));
  ASSERT_EQ(tables.bandwidth.size(), 5U) << "warm and cold, but nothing of the arena stays in L2";
  ASSERT_EQ(tables.products.size(), 4U);
  const nlohmann::ordered_json json = device_tables_json(tables);
  EXPECT_THAT(json["reason"], HasSubstr("no clock"));
  expect_no_number(json, "");
  EXPECT_THAT(device_tables_text(tables), HasSubstr("no clock"));
  EXPECT_THAT(device_tables_text(tables), Not(HasSubstr("0.0")));
  EXPECT_EQ(ceilings_json(measure_device_ceilings(*ops, small())), ceilings_json(Ceilings{}));
}

/// Bytes that kernels of passes moved.
std::map<std::string, std::int64_t> bytes_by_kernel(Device& device) {
  std::map<std::string, std::int64_t> bytes;
  for (const auto& [site, counts] : device.log().by_site()) {
    if (site.buffer == "buffer") bytes[site.kernel] += counts.lane_bytes;
  }
  return bytes;
}

TEST(DeviceArena, LaunchesGoOverTheWholeSet) {
  Device device;
  const auto ops = make_emulated_operations(device);
  const DeviceArena arena(*ops, small());
  arena.warm(kLeast);
  EXPECT_EQ(device.n_launches(), 3);
  EXPECT_THAT(bytes_by_kernel(device),
              ElementsAre(std::pair("copy_passes", 4 * kLeast), std::pair("read_passes", 4 * kLeast),
                          std::pair("write_passes", 4 * kLeast)));
  device.log().clear();
  arena.cold(kLeast);
  // A graph runs when it is recorded and once for the clock that is not there.
  EXPECT_EQ(device.n_launches(), 3 + 2 * 3 * (kArena / kLeast));
  EXPECT_THAT(bytes_by_kernel(device),
              ElementsAre(std::pair("copy_passes", 2 * kArena), std::pair("read_passes", 2 * kArena),
                          std::pair("write_passes", 2 * kArena)));
  EXPECT_EQ(device.log().reads_of("buffer").touched_bytes, kArena) << "every part of the arena";
}

TEST(DeviceCeilings, BytesOverTheDevicesSeconds) {
  Device device;
  // A gigabyte a second, whatever moves it.
  const auto ops = make_emulated_operations(device, GemvSetting::cublas, [&device] {
    std::int64_t moved = 0;
    for (const auto& [kernel, bytes] : bytes_by_kernel(device)) moved += bytes;
    return static_cast<double>(moved) / 1e9;
  });
  ASSERT_TRUE(has_device_clock(*ops));
  const DeviceArena arena(*ops, small());
  for (const StreamRates& rates : {arena.warm(kLeast), arena.cold(kLeast), arena.cold(kArena)}) {
    EXPECT_NEAR(rates.read_bytes_per_s, 1e9, 1);
    EXPECT_NEAR(rates.write_bytes_per_s, 1e9, 1);
    EXPECT_NEAR(rates.copy_bytes_per_s, 1e9, 1);
  }
}

TEST(DeviceCeilings, LaunchesAndEventsOverTheDevicesSeconds) {
  Device device;
  std::int64_t looks = 0;
  const auto ops = make_emulated_operations(device, GemvSetting::cublas, [&] {
    return 2e-6 * static_cast<double>(device.n_launches()) + 1e-3 * static_cast<double>(looks++);
  });
  const DeviceLimits limits = small();
  const LaunchTimes times = measure_launches(*ops, limits);
  EXPECT_NEAR(times.eager_s, 2e-6 + 1e-3 / 10, 1e-12) << "10 launches between two looks at the clock";
  EXPECT_NEAR(times.graph_s, 2e-6 + 1e-3 / 10, 1e-12);
  EXPECT_NEAR(times.event_s, 1e-3 * 11 / 10, 1e-12) << "10 looks between two looks";
  EXPECT_GT(times.round_trip_s, 0);
}

TEST(DeviceCeilings, FlopsOverTheDevicesSeconds) {
  Device device;
  std::int64_t looks = 0;
  const auto ops =
      make_emulated_operations(device, GemvSetting::cublas, [&] { return 1e-3 * static_cast<double>(looks++); });
  DeviceProducts products(*ops, DType::f32, 64, 2, DeviceProducts::Weights::beyond_l2);
  // A weight of 16 KiB is a third of 3 times L2: a ring of four, and a graph of four products takes a millisecond.
  const ProductRow row = products.measure(2, 3, 2);
  EXPECT_NEAR(row.flops_per_s, 4 * 2.0 * 64 * 64 * 2 / 1e-3, 1);
  EXPECT_NEAR(row.weight_bytes_per_s, 4 * 4.0 * 64 * 64 / 1e-3, 1);
  EXPECT_NEAR(products.measure(2, 9, 2).flops_per_s, 9 * 2.0 * 64 * 64 * 2 / 1e-3, 1) << "each weight in its turn";

  const Ceilings ceilings = measure_device_ceilings(*ops, small());
  EXPECT_NEAR(ceilings.gemm_flops_per_s_f32, 2.0 * 32 * 32 * 32 / 1e-3, 1);
  EXPECT_NEAR(ceilings.gemm_flops_per_s_bf16, 2.0 * 32 * 32 * 32 / 1e-3, 1);
  EXPECT_NEAR(ceilings.read_bytes_per_s, kArena / 1e-3, 1);
  EXPECT_GT(ceilings.launch_s, 0);
  EXPECT_GT(ceilings.event_s, ceilings.graph_launch_s);
  EXPECT_GT(ceilings.harness_overhead_s, 0);
  EXPECT_EQ(ceilings.fork_join_s, 0) << "a device has no threads of ours";
}

TEST(DeviceTables, HaveTheKeysOfTheCpusTables) {
  Device device;
  std::int64_t looks = 0;
  const auto ops =
      make_emulated_operations(device, GemvSetting::cublas, [&] { return 1e-3 * static_cast<double>(looks++); });
  const nlohmann::ordered_json json = device_tables_json(measure_device_tables(*ops, small(), [](const auto&) {}));
  EXPECT_TRUE(json["reason"].is_null());
  CeilingTables cpu;
  cpu.bandwidth.emplace_back();
  const nlohmann::ordered_json cpu_json = ceiling_tables_json(cpu);
  for (const auto& [key, value] : cpu_json.items()) EXPECT_TRUE(json.contains(key)) << key;
  for (const auto& [key, value] : cpu_json["bandwidth"][0].items()) {
    EXPECT_TRUE(json["bandwidth"][0].contains(key)) << key;
  }
  EXPECT_EQ(json["bandwidth"][0]["l2"], "warm");
  EXPECT_EQ(json["bandwidth"][4]["l2"], "cold");
  EXPECT_EQ(json["bandwidth"][4]["working_set_bytes"], kArena);
  EXPECT_GT(json["harness_overhead"]["median_s"], 0.0);
}

}  // namespace
}  // namespace kvlab
