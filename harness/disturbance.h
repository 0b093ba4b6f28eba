// What disturbed a round from outside: counters of the whole machine, read before and after it, and their difference.
// Whether that is enough for a warning is for others to say.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/nvml.h"

namespace kvlab {

/// Counters at one moment. Only differences mean anything. Zero where the system does not tell.
struct MachineLoad {
  double at_s = 0;                  // steady clock
  int cpus = 0;                     // that /proc/stat counts
  double busy_s = 0;                // all CPUs, all processes, interrupts included
  double steal_s = 0;               // all CPUs: ready to run, but the hypervisor ran somebody else
  double own_s = 0;                 // all threads of this process
  double quota_s = 0;               // in which the control group's CPU quota stopped this process
  std::int64_t thermal_events = 0;  // all CPUs: times that heat lowered the clock
  double cpu_mhz = 0;               // of the core that asks
  double gpu_mhz = 0;
  std::uint64_t gpu_slowdowns = 0;  // bits of nvml.h that hold now
  double gpu_memory_mhz = 0;
  double gpu_power_w = 0;
  double gpu_temperature_c = 0;
  std::uint64_t gpu_clock_events = 0;  // bits of nvml.h: every reason why the clock is not higher now
};

/// Takes well under a millisecond on a small machine; call it outside timed passes. `device` is the case's: a run on
/// the CPU does not ask the GPU. `nvml` may be null.
MachineLoad read_machine_load(const std::string& device, const Nvml* nvml = process_nvml());
/// The same below a folder that stands for "/".
MachineLoad read_machine_load_below(const std::string& root);

/// Of one round, from before its first pass to after its last. CPU times are sums over all CPUs.
struct Disturbance {
  double wall_s = 0;
  int cpus = 0;            // 0: the system tells nothing
  double steal_s = 0;      // CPU time that the hypervisor gave to others
  double other_cpu_s = 0;  // CPU time of other processes; a little below 0 when nothing else ran, for ticks are coarse
  double quota_s = 0;      // time in which a CPU quota stopped this process
  std::int64_t thermal_events = 0;
  double cpu_mhz = 0;               // right after the round, of the core that drove it; 0: unknown
  double gpu_mhz = 0;               // right after the round; 0: unknown, or a run on the CPU
  std::uint64_t gpu_slowdowns = 0;  // bits of nvml.h that held right before or right after the round
  // The GPU right after the round, as gpu_mhz; 0: unknown.
  double gpu_memory_mhz = 0;
  double gpu_power_w = 0;
  double gpu_temperature_c = 0;
  std::uint64_t gpu_clock_events = 0;  // all bits of nvml.h that held right before or right after the round

  bool operator==(const Disturbance&) const = default;
};

Disturbance disturbance_between(const MachineLoad& before, const MachineLoad& after);

nlohmann::ordered_json disturbance_json(const Disturbance& disturbance);
/// What disturbance_json wrote. Throws nlohmann::json::exception on a missing or wrong member.
Disturbance disturbance_from_json(const nlohmann::json& json);

}  // namespace kvlab
