// Declares the entry points of libnvidia-ml that it calls (names, arguments and values by NVIDIA's NVML reference
// manual), and asks through them.
#include "harness/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <utility>

namespace kvlab {
namespace {

using Status = int;  // 0: success
using Device = void*;

constexpr unsigned kClockSm = 1;
constexpr unsigned kClockMemory = 2;
constexpr unsigned kSensorGpu = 0;
constexpr unsigned kNameLength = 96;

constexpr std::array<const char*, 9> kEventNames = {
    "idle",      "application clocks", "power cap",        "hardware slowdown", "sync boost",
    "heat (sw)", "heat (hw)",          "power brake (hw)", "display clocks"};
constexpr std::uint64_t kSlowdowns = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

/// nvmlMemory_t.
struct MemoryInfo {
  unsigned long long total_bytes, free_bytes, used_bytes;
};

/// A function of the library, null where it does not have it.
template <typename... Arguments>
class Entry {
 public:
  void find(void* library, const char* name) {
    function_ = reinterpret_cast<Status (*)(Arguments...)>(dlsym(library, name));
  }
  bool there() const { return function_ != nullptr; }
  bool succeeds(Arguments... arguments) const { return there() && function_(arguments...) == 0; }

 private:
  Status (*function_)(Arguments...) = nullptr;
};

/// Asks for one number; nothing where the GPU does not tell.
template <typename Call>
std::optional<double> number(double scale, Call call) {
  unsigned value = 0;
  if (!call(&value)) return std::nullopt;
  return static_cast<double>(value) * scale;
}

}  // namespace

struct Nvml::Library {
  explicit Library(void* opened) : handle(opened) {
    init.find(handle, "nvmlInit_v2");
    shutdown.find(handle, "nvmlShutdown");
    driver_version.find(handle, "nvmlSystemGetDriverVersion");
    by_index.find(handle, "nvmlDeviceGetHandleByIndex_v2");
    by_uuid.find(handle, "nvmlDeviceGetHandleByUUID");
    name.find(handle, "nvmlDeviceGetName");
    clock.find(handle, "nvmlDeviceGetClockInfo");
    max_clock.find(handle, "nvmlDeviceGetMaxClockInfo");
    power.find(handle, "nvmlDeviceGetPowerUsage");
    power_limit.find(handle, "nvmlDeviceGetEnforcedPowerLimit");
    temperature.find(handle, "nvmlDeviceGetTemperature");
    clock_events.find(handle, "nvmlDeviceGetCurrentClocksEventReasons");
    if (!clock_events.there()) clock_events.find(handle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    ecc_mode.find(handle, "nvmlDeviceGetEccMode");
    memory.find(handle, "nvmlDeviceGetMemoryInfo");
  }
  ~Library() { dlclose(handle); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  Device first_visible() const {
    Device device = nullptr;
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    const std::string wanted =
        visible == nullptr ? "0" : std::string(visible).substr(0, std::string(visible).find(','));
    if (wanted.starts_with("GPU-")) return by_uuid.succeeds(wanted.c_str(), &device) ? device : nullptr;
    char* end = nullptr;
    const unsigned long index = std::strtoul(wanted.c_str(), &end, 10);
    const bool is_number = !wanted.empty() && *end == '\0' && wanted[0] != '-';
    return is_number && by_index.succeeds(static_cast<unsigned>(index), &device) ? device : nullptr;
  }

  void* handle;
  Entry<> init, shutdown;
  Entry<char*, unsigned> driver_version;
  Entry<unsigned, Device*> by_index;
  Entry<const char*, Device*> by_uuid;
  Entry<Device, char*, unsigned> name;
  Entry<Device, unsigned, unsigned*> clock, max_clock, temperature;
  Entry<Device, unsigned*> power, power_limit;  // milliwatts
  Entry<Device, unsigned long long*> clock_events;
  Entry<Device, unsigned*, unsigned*> ecc_mode;  // now, and after the next start
  Entry<Device, MemoryInfo*> memory;
};

std::vector<std::string> clock_event_names(std::uint64_t bits) {
  std::vector<std::string> names;
  for (std::size_t bit = 0; bit < 64; ++bit) {
    if ((bits >> bit & 1U) == 0) continue;
    names.push_back(bit < kEventNames.size() ? kEventNames[bit] : fmt::format("bit {}", bit));
  }
  return names;
}

std::uint64_t slowdown_events(std::uint64_t bits) { return bits & kSlowdowns; }

std::unique_ptr<Nvml> Nvml::open(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  auto opened = std::make_unique<Library>(handle);
  if (!opened->init.succeeds()) return nullptr;
  return std::unique_ptr<Nvml>(new Nvml(std::move(opened)));
}

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Nvml::~Nvml() { library_->shutdown.succeeds(); }

std::optional<GpuState> Nvml::read() const {
  const Library& nvml = *library_;
  const Device device = nvml.first_visible();
  if (device == nullptr) return std::nullopt;
  GpuState state;
  std::array<char, kNameLength> text{};
  if (nvml.name.succeeds(device, text.data(), kNameLength)) state.name = text.data();
  if (nvml.driver_version.succeeds(text.data(), kNameLength)) state.driver = text.data();
  state.sm_mhz = number(1, [&](unsigned* mhz) { return nvml.clock.succeeds(device, kClockSm, mhz); });
  state.max_sm_mhz = number(1, [&](unsigned* mhz) { return nvml.max_clock.succeeds(device, kClockSm, mhz); });
  state.memory_mhz = number(1, [&](unsigned* mhz) { return nvml.clock.succeeds(device, kClockMemory, mhz); });
  state.power_w = number(1e-3, [&](unsigned* mw) { return nvml.power.succeeds(device, mw); });
  state.power_limit_w = number(1e-3, [&](unsigned* mw) { return nvml.power_limit.succeeds(device, mw); });
  state.temperature_c = number(1, [&](unsigned* c) { return nvml.temperature.succeeds(device, kSensorGpu, c); });
  unsigned long long events = 0;
  if (nvml.clock_events.succeeds(device, &events)) state.clock_events = events;
  unsigned ecc_now = 0;
  unsigned ecc_next = 0;
  if (nvml.ecc_mode.succeeds(device, &ecc_now, &ecc_next)) state.ecc = ecc_now != 0;
  MemoryInfo memory{};
  if (nvml.memory.succeeds(device, &memory)) state.free_memory_bytes = static_cast<std::int64_t>(memory.free_bytes);
  return state;
}

const Nvml* process_nvml() {
  static const std::unique_ptr<Nvml> nvml = Nvml::open();
  return nvml.get();
}

}  // namespace kvlab
