#include "harness/devices.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "kernels/backend_module.h"
#include "kernels/error.h"

namespace kvlab {
namespace {

constexpr const char* kCpu = "cpu";
constexpr const char* kCuda = "cuda";
constexpr const char* kCudaEmulated = "cuda-emulated";

/// A module, or why there is none.
struct Loaded {
  const BackendModule* module = nullptr;
  std::string obstacle;
};

std::filesystem::path module_file(const std::string& device) {
  const std::string name = device == kCuda ? "libkvlab_cuda.so" : "libkvlab_cuda_emulated.so";
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

Loaded load(const std::string& device) {
  const std::filesystem::path file = module_file(device);
  if (!std::filesystem::exists(file)) {
    return {nullptr, fmt::format("this build has no CUDA backend ({} is not beside the program); to build it, install "
                                 "nvcc 12 or later with cuBLAS and run cmake again",
                                 file.filename().string())};
  }
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, fmt::format("the CUDA backend cannot be loaded: {}", dlerror())};
  const auto* module = static_cast<const BackendModule*>(dlsym(library, kBackendModuleSymbol));
  if (module == nullptr) return {nullptr, fmt::format("{} is not a backend of this program", file.string())};
  return {module, module->obstacle()};
}

/// Loaded once; modules stay until the program ends.
const Loaded& loaded(const std::string& device) {
  static std::map<std::string, Loaded> modules;
  const auto known = modules.find(device);
  return known != modules.end() ? known->second : modules.emplace(device, load(device)).first->second;
}

std::string resolve_auto() {
  const std::string obstacle = cuda_obstacle();
  if (obstacle.empty()) return kCuda;
  static bool told = false;
  if (!told) fmt::print(stderr, "kvlab: --device auto takes the CPU: {}\n", obstacle);
  told = true;
  return kCpu;
}

}  // namespace

std::string resolve_device(const std::string& device) {
  if (device == kCpu) return device;
  if (device == "auto") return resolve_auto();
  if (device != kCuda && device != kCudaEmulated) {
    throw InputError(fmt::format("--device: there is no device \"{}\"; allowed are cpu, cuda, auto", device));
  }
  const std::string& obstacle = loaded(device).obstacle;
  if (!obstacle.empty())
    throw InputError(fmt::format("--device {}: CUDA cannot be used here: {}; use cpu or auto", device, obstacle));
  return device;
}

std::string resolve_measured_device(const std::string& device) {
  if (device == kCudaEmulated) {
    throw InputError("--device cuda-emulated: emulation has no times to report; measure on cpu or cuda");
  }
  return resolve_device(device);
}

std::unique_ptr<Operations> make_operations(const std::string& device, int threads, GemvSetting gemv) {
  return device == kCpu ? make_cpu_operations(threads) : loaded(device).module->make(gemv);
}

std::string cuda_obstacle() { return loaded(kCuda).obstacle; }

std::string cuda_description() { return loaded(kCuda).module->description(); }

}  // namespace kvlab
