// The CUDA backend over the emulated device as a module, for `--device cuda-emulated` in test builds.
#include "kernels/backend_module.h"
#include "kernels/cuda_emulation/backend.h"

namespace kvlab::cuda::emulation {
namespace {

std::string no_obstacle() { return ""; }

std::string description() { return "CUDA kernels on an emulated device: right answers, no times"; }

std::unique_ptr<Operations> make_operations(GemvSetting gemv) {
  static Device device({.counts = false});  // outlives what uses it: the module is never unloaded
  return make_emulated_operations(device, gemv);
}

}  // namespace
}  // namespace kvlab::cuda::emulation

extern "C" const kvlab::BackendModule kvlab_backend_module;
const kvlab::BackendModule kvlab_backend_module = {
    kvlab::cuda::emulation::no_obstacle, kvlab::cuda::emulation::description, kvlab::cuda::emulation::make_operations};
