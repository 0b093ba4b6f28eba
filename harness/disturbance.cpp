// Reads the counters of /proc and /sys (Linux).
#include "harness/disturbance.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

namespace kvlab {
namespace {

double first_number(const std::string& path) {
  std::ifstream file(path);
  double number = 0;
  file >> number;
  return number;
}

/// The line "cpu user nice system idle iowait irq softirq steal …" in ticks; "cpu0", "cpu1", … only to be counted.
void read_cpu_times(const std::string& root, MachineLoad& load) {
  std::ifstream file(root + "proc/stat");
  const double tick_s = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    if (line[3] != ' ') {
      ++load.cpus;
      continue;
    }
    std::istringstream words(line.substr(4));
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
    words >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
    load.busy_s = (user + nice + system + irq + softirq) * tick_s;
    load.steal_s = steal * tick_s;
  }
}

double own_cpu_s() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The value of a "key value" line; 0 without one.
double value_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string name;
  for (double value = 0; file >> name >> value;) {
    if (name == key) return value;
  }
  return 0;
}

/// /proc/self/cgroup has lines "number:controllers:path"; the unified hierarchy (version 2) leaves controllers empty.
double quota_wait_s(const std::string& root) {
  std::ifstream file(root + "proc/self/cgroup");
  double seconds = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      seconds += 1e-6 * value_of(root + "sys/fs/cgroup" + path + "/cpu.stat", "throttled_usec");
    } else if (controllers.find(",cpu,") != std::string::npos) {
      seconds += 1e-9 * value_of(root + "sys/fs/cgroup/cpu" + path + "/cpu.stat", "throttled_time");
    }
  }
  return seconds;
}

std::string cpu_folder(const std::string& root, int cpu) {
  return root + "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
}

std::int64_t count_thermal_events(const std::string& root, int cpus) {
  if (!std::filesystem::exists(cpu_folder(root, 0) + "thermal_throttle")) return 0;
  double events = 0;
  for (int cpu = 0; cpu < cpus; ++cpu) {
    events += first_number(cpu_folder(root, cpu) + "thermal_throttle/core_throttle_count");
    events += first_number(cpu_folder(root, cpu) + "thermal_throttle/package_throttle_count");
  }
  return static_cast<std::int64_t>(events);
}

/// Of a core that is at work now: the clocks of idle cores say nothing about a run.
double clock_mhz(const std::string& root, int cpu) {
  const double khz = first_number(cpu_folder(root, cpu) + "cpufreq/scaling_cur_freq");
  if (khz > 0) return khz / 1000;
  std::ifstream file(root + "proc/cpuinfo");
  bool mine = false;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const double value = std::strtod(line.c_str() + colon + 1, nullptr);
    if (line.starts_with("processor")) mine = static_cast<int>(value) == cpu;
    if (mine && line.starts_with("cpu MHz")) return value;
  }
  return 0;
}

struct TimeField {
  const char* name;
  double Disturbance::*member;
};
constexpr std::array<TimeField, 6> kTimeFields = {{{"wall_s", &Disturbance::wall_s},
                                                   {"steal_s", &Disturbance::steal_s},
                                                   {"other_cpu_s", &Disturbance::other_cpu_s},
                                                   {"quota_s", &Disturbance::quota_s},
                                                   {"cpu_mhz", &Disturbance::cpu_mhz},
                                                   {"gpu_mhz", &Disturbance::gpu_mhz}}};
// Absent in rounds that were stored before they were read.
constexpr std::array<TimeField, 3> kGpuFields = {{{"gpu_memory_mhz", &Disturbance::gpu_memory_mhz},
                                                  {"gpu_power_w", &Disturbance::gpu_power_w},
                                                  {"gpu_temperature_c", &Disturbance::gpu_temperature_c}}};

}  // namespace

MachineLoad read_machine_load(const std::string& device, const Nvml* nvml) {
  MachineLoad load = read_machine_load_below("/");
  if (device == "cpu" || nvml == nullptr) return load;
  const std::optional<GpuState> gpu = nvml->read();
  if (!gpu) return load;
  load.gpu_mhz = gpu->sm_mhz.value_or(0);
  load.gpu_slowdowns = slowdown_events(gpu->clock_events.value_or(0));
  load.gpu_memory_mhz = gpu->memory_mhz.value_or(0);
  load.gpu_power_w = gpu->power_w.value_or(0);
  load.gpu_temperature_c = gpu->temperature_c.value_or(0);
  load.gpu_clock_events = gpu->clock_events.value_or(0);
  return load;
}

MachineLoad read_machine_load_below(const std::string& root) {
  MachineLoad load;
  load.cpu_mhz = clock_mhz(root, sched_getcpu());  // first, while the core still has the clock of the round
  load.at_s = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  load.own_s = own_cpu_s();
  read_cpu_times(root, load);
  load.quota_s = quota_wait_s(root);
  load.thermal_events = count_thermal_events(root, load.cpus);
  return load;
}

Disturbance disturbance_between(const MachineLoad& before, const MachineLoad& after) {
  Disturbance disturbance;
  disturbance.wall_s = after.at_s - before.at_s;
  disturbance.cpus = after.cpus;
  if (after.cpus > 0) {
    disturbance.steal_s = after.steal_s - before.steal_s;
    disturbance.other_cpu_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s);
  }
  disturbance.quota_s = after.quota_s - before.quota_s;
  disturbance.thermal_events = after.thermal_events - before.thermal_events;
  disturbance.cpu_mhz = after.cpu_mhz;
  disturbance.gpu_mhz = after.gpu_mhz;
  disturbance.gpu_slowdowns = before.gpu_slowdowns | after.gpu_slowdowns;
  disturbance.gpu_memory_mhz = after.gpu_memory_mhz;
  disturbance.gpu_power_w = after.gpu_power_w;
  disturbance.gpu_temperature_c = after.gpu_temperature_c;
  disturbance.gpu_clock_events = before.gpu_clock_events | after.gpu_clock_events;
  return disturbance;
}

nlohmann::ordered_json disturbance_json(const Disturbance& disturbance) {
  nlohmann::ordered_json json;
  for (const TimeField& field : kTimeFields) json[field.name] = disturbance.*field.member;
  json["cpus"] = disturbance.cpus;
  json["thermal_events"] = disturbance.thermal_events;
  json["gpu_slowdowns"] = disturbance.gpu_slowdowns;
  for (const TimeField& field : kGpuFields) json[field.name] = disturbance.*field.member;
  json["gpu_clock_events"] = disturbance.gpu_clock_events;
  return json;
}

Disturbance disturbance_from_json(const nlohmann::json& json) {
  Disturbance disturbance;
  for (const TimeField& field : kTimeFields) json.at(field.name).get_to(disturbance.*field.member);
  json.at("cpus").get_to(disturbance.cpus);
  json.at("thermal_events").get_to(disturbance.thermal_events);
  json.at("gpu_slowdowns").get_to(disturbance.gpu_slowdowns);
  for (const TimeField& field : kGpuFields) disturbance.*field.member = json.value(field.name, 0.0);
  disturbance.gpu_clock_events = json.value("gpu_clock_events", std::uint64_t{0});
  return disturbance;
}

}  // namespace kvlab
