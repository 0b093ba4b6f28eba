// The CUDA backend as a module: loaded only when a command asks for a GPU, so that nobody else pays for its libraries.
#include "kernels/backend_module.h"
#include "kernels/cuda/backend/device_operations.h"
#include "kernels/cuda/cublas/cublas_matmuls.h"

namespace kvlab::cuda {
namespace {

std::unique_ptr<Operations> make_operations() {
  std::unique_ptr<Runtime> runtime = make_device_runtime();
  auto matmuls = std::make_unique<CublasMatmuls>(*runtime);
  return std::make_unique<DeviceOperations>(std::move(runtime), std::move(matmuls));
}

}  // namespace
}  // namespace kvlab::cuda

extern "C" const kvlab::BackendModule kvlab_backend_module;
const kvlab::BackendModule kvlab_backend_module = {kvlab::cuda::device_obstacle, kvlab::cuda::device_description,
                                                   kvlab::cuda::make_operations};
