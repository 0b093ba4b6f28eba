// The GPU's own account of itself, from NVML. The library comes with NVIDIA's driver and is loaded at run time, so that
// one binary runs with and without it. Knows nothing of CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvlab {

/// Empty or absent where the GPU does not say.
struct GpuState {
  std::string name;
  std::string driver;
  std::optional<double> sm_mhz, max_sm_mhz, memory_mhz;
  std::optional<double> power_w, power_limit_w;
  std::optional<double> temperature_c;
  std::optional<std::uint64_t> clock_events;  // bits; see clock_event_names
  std::optional<bool> ecc;
  std::optional<std::int64_t> free_memory_bytes;
};

/// The names of clock-event reasons (throttle reasons, in older drivers), in the order of their bits; "bit 12" for one
/// that has no name here.
std::vector<std::string> clock_event_names(std::uint64_t bits);
/// The reasons that mean a clock below what the load asked for: power, heat, brakes. Idle and chosen clocks do not.
std::uint64_t slowdown_events(std::uint64_t bits);

class Nvml {
 public:
  /// Null where the library is not there, is too old, or finds no driver.
  static std::unique_ptr<Nvml> open(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// The first GPU that CUDA would show to this process: CUDA_VISIBLE_DEVICES may name it by number or UUID. Nothing
  /// where there is none.
  std::optional<GpuState> read() const;

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

/// NVML of this process, opened when first asked for; null without one.
const Nvml* process_nvml();

}  // namespace kvlab
