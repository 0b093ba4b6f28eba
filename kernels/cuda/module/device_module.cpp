// The CUDA backend as a module: loaded only when a command asks for a GPU, so that nobody else pays for its libraries.
#include <cstdio>

#include "kernels/backend_module.h"
#include "kernels/cuda/backend/device_operations.h"
#include "kernels/cuda/cublas/cublas_matmuls.h"

namespace kvlab::cuda {
namespace {

void tell(const std::string& sentence) { std::fprintf(stderr, "kvlab: %s\n", sentence.c_str()); }

std::unique_ptr<Operations> make_operations(GemvSetting gemv) {
  std::unique_ptr<Runtime> runtime = make_device_runtime();
  auto matmuls = std::make_unique<CublasMatmuls>(*runtime);
  ProductChoices choices(gemv, product_machine(device_description(), cublas_version()), product_choices_path(), tell);
  return std::make_unique<DeviceOperations>(std::move(runtime), std::move(matmuls), std::move(choices));
}

}  // namespace
}  // namespace kvlab::cuda

extern "C" const kvlab::BackendModule kvlab_backend_module;
const kvlab::BackendModule kvlab_backend_module = {kvlab::cuda::device_obstacle, kvlab::cuda::device_description,
                                                   kvlab::cuda::make_operations};
