// What the harness runs on: read from the system, never guessed. Empty or zero where the system does not say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvlab {

struct CacheLevel {
  int level = 0;
  std::string type;  // Data | Instruction | Unified
  std::int64_t bytes = 0;
};

struct Machine {
  std::string cpu_model;
  int logical_cores = 0;
  int physical_cores = 0;
  int numa_nodes = 0;
  std::vector<CacheLevel> caches;  // as core 0 sees them
  std::int64_t memory_total_bytes = 0;
  std::int64_t memory_available_bytes = 0;
  std::string os_name;
  std::string kernel;
  std::string governor;
  double current_mhz = 0;
  std::vector<double> load_average;  // 1, 5 and 15 minutes
};

Machine read_machine();

/// The largest cache that core 0 sees; 32 MiB when the system does not say.
std::int64_t last_level_cache_bytes();

}  // namespace kvlab
