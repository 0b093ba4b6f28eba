// A libnvidia-ml that owns one GPU of our invention. KVLAB_FAKE_NVML=broken: no driver; =mute: the GPU tells its name
// and nothing else, as a virtual one may.
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kOk = 0;
constexpr int kNoDriver = 9;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;

int device = 0;  // its address is the handle
int n_open = 0;

bool mode(const char* name) {
  const char* set = std::getenv("KVLAB_FAKE_NVML");
  return set != nullptr && std::string(set) == name;
}

int tell(void* handle, unsigned* target, unsigned value) {
  if (handle != &device || n_open != 1) return kNotFound;
  if (mode("mute")) return kNotSupported;
  *target = value;
  return kOk;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  if (mode("broken")) return kNoDriver;
  ++n_open;
  return kOk;
}
int nvmlShutdown() {
  --n_open;
  return kOk;
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "580.65.06", length);
  return kOk;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  *handle = &device;
  return index == 2 || index == 0 ? kOk : kNotFound;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  *handle = &device;
  return std::strcmp(uuid, "GPU-1234") == 0 ? kOk : kNotFound;
}
int nvmlDeviceGetName(void* handle, char* text, unsigned length) {
  if (handle != &device) return kNotFound;
  std::strncpy(text, "NVIDIA H200", length);
  return kOk;
}
int nvmlDeviceGetClockInfo(void* handle, unsigned type, unsigned* mhz) {
  return tell(handle, mhz, type == 1 ? 1755 : 3201);  // SM : memory
}
int nvmlDeviceGetMaxClockInfo(void* handle, unsigned type, unsigned* mhz) {
  return tell(handle, mhz, type == 1 ? 1980 : 3201);
}
int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) { return tell(handle, milliwatts, 512250); }
int nvmlDeviceGetEnforcedPowerLimit(void* handle, unsigned* milliwatts) { return tell(handle, milliwatts, 700000); }
int nvmlDeviceGetTemperature(void* handle, unsigned sensor, unsigned* celsius) {
  return sensor == 0 ? tell(handle, celsius, 64) : kNotSupported;
}
#ifdef KVLAB_FAKE_NVML_OLD
int nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* bits) {
#else
int nvmlDeviceGetCurrentClocksEventReasons(void* handle, unsigned long long* bits) {
#endif
  unsigned low = 0;
  const int status = tell(handle, &low, 0x1 | 0x4 | 0x40);
  *bits = low;
  return status;
}
int nvmlDeviceGetEccMode(void* handle, unsigned* now, unsigned* next) {
  *next = 0;
  return tell(handle, now, 1);
}
struct FakeMemory {
  unsigned long long total_bytes, free_bytes, used_bytes;
};
int nvmlDeviceGetMemoryInfo(void* handle, FakeMemory* memory) {
  unsigned used_gib = 0;
  const int status = tell(handle, &used_gib, 41);
  *memory = {141ULL << 30, (141ULL - used_gib) << 30, static_cast<unsigned long long>(used_gib) << 30};
  return status;
}

}  // extern "C"
