// Counters of the machine, read from made-up /proc and /sys trees, and what lies between two readings.
#include "harness/disturbance.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace kvlab {
namespace {

namespace fs = std::filesystem;

/// A folder that stands for "/".
class FakeRoot {
 public:
  FakeRoot() { fs::create_directories(folder_); }
  ~FakeRoot() { fs::remove_all(folder_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  std::string path() const { return folder_.string() + "/"; }

 private:
  fs::path folder_ = fs::path(testing::TempDir()) / ("kvlab-root-" + std::to_string(getpid()));
};

double ticks(double n) { return n / static_cast<double>(sysconf(_SC_CLK_TCK)); }

TEST(MachineLoad, ReadsTimesOfAllCpus) {
  const FakeRoot root;
  root.write("proc/stat", "cpu  100 20 30 4000 500 6 7 80 9 10\ncpu0 1 2 3\ncpu1 1 2 3\nintr 12 0\n");
  const MachineLoad load = read_machine_load_below(root.path());
  EXPECT_EQ(load.cpus, 2);
  EXPECT_DOUBLE_EQ(load.busy_s, ticks(100 + 20 + 30 + 6 + 7));  // guest time is in user time already
  EXPECT_DOUBLE_EQ(load.steal_s, ticks(80));
  EXPECT_GT(load.own_s, 0);
}

TEST(MachineLoad, AnOldKernelCountsNoSteal) {
  const FakeRoot root;
  root.write("proc/stat", "cpu  100 20 30 4000\ncpu0 1 2 3\n");
  const MachineLoad load = read_machine_load_below(root.path());
  EXPECT_DOUBLE_EQ(load.busy_s, ticks(150));
  EXPECT_EQ(load.steal_s, 0);
}

TEST(MachineLoad, ReadsTheQuotaOfUnifiedControlGroups) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "0::/box\n");
  root.write("sys/fs/cgroup/box/cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 1500000\n");
  EXPECT_DOUBLE_EQ(read_machine_load_below(root.path()).quota_s, 1.5);
}

TEST(MachineLoad, ReadsTheQuotaOfSeparateControlGroups) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "4:memory:/box\n3:cpu,cpuacct:/box\n0::/\n");
  root.write("sys/fs/cgroup/cpu/box/cpu.stat", "nr_periods 7\nnr_throttled 3\nthrottled_time 2500000000\n");
  EXPECT_DOUBLE_EQ(read_machine_load_below(root.path()).quota_s, 2.5);
}

TEST(MachineLoad, CountsThermalEventsOfCoresAndPackages) {
  const FakeRoot root;
  root.write("proc/stat", "cpu  1 1 1 1\ncpu0 1\ncpu1 1\n");
  const std::string cpus = "sys/devices/system/cpu/cpu";
  root.write(cpus + "0/thermal_throttle/core_throttle_count", "3\n");
  root.write(cpus + "0/thermal_throttle/package_throttle_count", "4\n");
  root.write(cpus + "1/thermal_throttle/core_throttle_count", "5\n");
  EXPECT_EQ(read_machine_load_below(root.path()).thermal_events, 12);
}

TEST(MachineLoad, PrefersTheGovernorsClockToThatOfCpuinfo) {
  const FakeRoot root;
  std::string cpuinfo;
  const auto cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_CONF));  // the test may run on any of them
  for (int cpu = 0; cpu < cpus; ++cpu) {
    cpuinfo += "processor\t: " + std::to_string(cpu) + "\ncpu MHz\t\t: 2445.422\n\n";
  }
  root.write("proc/cpuinfo", cpuinfo);
  EXPECT_DOUBLE_EQ(read_machine_load_below(root.path()).cpu_mhz, 2445.422);
  for (int cpu = 0; cpu < cpus; ++cpu) {
    root.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/scaling_cur_freq", "3100000\n");
  }
  EXPECT_DOUBLE_EQ(read_machine_load_below(root.path()).cpu_mhz, 3100);
}

TEST(MachineLoad, IsZeroWhereNothingIsTold) {
  const FakeRoot root;
  const MachineLoad load = read_machine_load_below(root.path());
  EXPECT_EQ(load.cpus, 0);
  EXPECT_EQ(load.busy_s, 0);
  EXPECT_EQ(load.quota_s, 0);
  EXPECT_EQ(load.cpu_mhz, 0);
  const Disturbance none = disturbance_between(load, load);
  EXPECT_EQ(none, Disturbance{});
}

TEST(Disturbance, IsWhatLiesBetweenTwoReadings) {
  const MachineLoad before{10, 4, 100, 5, 50, 1, 7, 3000, 1900, 0x4, 3200, 150, 50, 0x5};
  const MachineLoad after{12, 4, 107, 5.5, 54, 1.25, 9, 2900, 1700, 0x40, 3100, 650, 71, 0x40};
  const Disturbance between = disturbance_between(before, after);
  EXPECT_DOUBLE_EQ(between.wall_s, 2);
  EXPECT_EQ(between.cpus, 4);
  EXPECT_DOUBLE_EQ(between.steal_s, 0.5);
  EXPECT_DOUBLE_EQ(between.other_cpu_s, 3);  // 7 s of CPU time, 4 of them ours
  EXPECT_DOUBLE_EQ(between.quota_s, 0.25);
  EXPECT_EQ(between.thermal_events, 2);
  EXPECT_DOUBLE_EQ(between.cpu_mhz, 2900);
  EXPECT_DOUBLE_EQ(between.gpu_mhz, 1700);
  EXPECT_EQ(between.gpu_slowdowns, 0x44U);
  EXPECT_DOUBLE_EQ(between.gpu_memory_mhz, 3100);
  EXPECT_DOUBLE_EQ(between.gpu_power_w, 650);
  EXPECT_DOUBLE_EQ(between.gpu_temperature_c, 71);
  EXPECT_EQ(between.gpu_clock_events, 0x45U);
}

TEST(Disturbance, SurvivesJson) {
  const Disturbance disturbance{2, 4, 0.5, 3, 0.25, 2, 2900, 1700, 0x44, 3100, 650, 71, 0x45};
  nlohmann::json json = nlohmann::json::parse(disturbance_json(disturbance).dump());
  EXPECT_EQ(disturbance_from_json(json), disturbance);
  for (const char* later : {"gpu_memory_mhz", "gpu_power_w", "gpu_temperature_c", "gpu_clock_events"})
    json.erase(later);
  EXPECT_EQ(disturbance_from_json(json), (Disturbance{2, 4, 0.5, 3, 0.25, 2, 2900, 1700, 0x44})) << "an older file";
  EXPECT_THROW(disturbance_from_json(nlohmann::json{{"wall_s", 1}}), nlohmann::json::exception);
}

/// Sleeping costs no CPU time, so what the machine did meanwhile was not ours.
TEST(Disturbance, OfThisMachineIsFinite) {
  const MachineLoad before = read_machine_load("cpu");
  usleep(20000);
  const Disturbance between = disturbance_between(before, read_machine_load("cpu"));
  EXPECT_GE(between.wall_s, 0.02);
  EXPECT_GE(between.steal_s, 0);
  EXPECT_LE(between.steal_s, between.cpus * (between.wall_s + 0.1));
}

}  // namespace
}  // namespace kvlab
