#include "harness/kernel_trace_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "kernels/error.h"

namespace kvlab {
namespace {

std::string beside_the_program() {
  constexpr const char* kName = "libkvlab_cupti.so";
  std::error_code unreadable;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", unreadable).parent_path();
  for (const std::filesystem::path& place : {folder / kName, folder / ".." / "lib" / kName}) {
    if (std::filesystem::exists(place)) return place.string();
  }
  throw InputError(
      fmt::format("--kernel-times: {} is not beside the program; a build with the CUDA toolkit makes it", kName));
}

}  // namespace

std::unique_ptr<cuda::KernelTrace> load_kernel_trace(const std::string& library) {
  const std::string path = library.empty() ? beside_the_program() : library;
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: CUPTI keeps its callbacks
  if (module == nullptr) {
    throw InputError(fmt::format(
        "--kernel-times: {}; where CUPTI is what is missing: it comes with the CUDA toolkit (libcupti.so, in "
        "lib64 or extras/CUPTI/lib64) and as Python's nvidia-cuda-cupti; add its folder to LD_LIBRARY_PATH",
        dlerror()));
  }
  const auto make = reinterpret_cast<cuda::MakeKernelTrace>(dlsym(module, cuda::kMakeKernelTrace));
  if (make == nullptr) throw InputError(fmt::format("--kernel-times: {} does not trace kernels", path));
  return std::unique_ptr<cuda::KernelTrace>(make());
}

}  // namespace kvlab
