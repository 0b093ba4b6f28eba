// Reads /proc and /sys (Linux).
#include "harness/machine.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace kvlab {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\"");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\"") - begin + 1));
}

/// "32768K" to bytes; 0 when it is no size.
std::int64_t parse_size(const std::string& text) {
  char* end = nullptr;
  const long long number = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str() || number < 0) return 0;
  if (*end == 'K') return number * 1024;
  return *end == 'M' ? number * 1024 * 1024 : number;
}

void read_cpu(Machine& machine) {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::pair<std::string, std::string>> cores;  // (package, core)
  std::string package;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = trimmed(std::string_view(line).substr(0, colon));
    const std::string value = trimmed(std::string_view(line).substr(colon + 1));
    if (key == "model name" && machine.cpu_model.empty()) machine.cpu_model = value;
    if (key == "physical id") package = value;
    if (key == "core id") cores.insert({package, value});
    if (key == "cpu MHz" && machine.current_mhz == 0) machine.current_mhz = std::strtod(value.c_str(), nullptr);
  }
  machine.logical_cores = static_cast<int>(std::thread::hardware_concurrency());
  machine.physical_cores = static_cast<int>(cores.size());
}

void read_caches(Machine& machine) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string size = first_line(folder + "size");
    if (size.empty()) return;
    machine.caches.push_back(
        {std::atoi(first_line(folder + "level").c_str()), first_line(folder + "type"), parse_size(size)});
  }
}

void read_memory(Machine& machine) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("node")) ++machine.numa_nodes;
  }
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::int64_t bytes = std::strtoll(line.c_str() + colon + 1, nullptr, 10) * 1024;
    if (line.starts_with("MemTotal:")) machine.memory_total_bytes = bytes;
    if (line.starts_with("MemAvailable:")) machine.memory_available_bytes = bytes;
  }
}

void read_os(Machine& machine) {
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PRETTY_NAME=")) machine.os_name = trimmed(std::string_view(line).substr(12));
  }
  utsname name{};
  if (uname(&name) == 0) machine.kernel = std::string(name.sysname) + " " + name.release + " " + name.machine;
}

}  // namespace

Machine read_machine() {
  Machine machine;
  read_cpu(machine);
  read_caches(machine);
  read_memory(machine);
  read_os(machine);
  machine.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  double load[3] = {};
  const int n_loads = getloadavg(load, 3);
  for (int i = 0; i < n_loads; ++i) machine.load_average.push_back(load[i]);
  return machine;
}

std::int64_t last_level_cache_bytes() {
  static const std::int64_t bytes = [] {
    Machine machine;
    read_caches(machine);
    std::int64_t largest = 0;
    for (const CacheLevel& cache : machine.caches) largest = std::max(largest, cache.bytes);
    return largest > 0 ? largest : std::int64_t{32} * 1024 * 1024;
  }();
  return bytes;
}

}  // namespace kvlab
