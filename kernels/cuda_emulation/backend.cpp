#include "kernels/cuda_emulation/backend.h"

#include "kernels/cuda/backend/device_operations.h"
#include "kernels/cuda_emulation/launch.h"
#include "kernels/cuda_emulation/matmul.h"
#include "kernels/cuda_emulation/runtime.h"

namespace kvlab::cuda::emulation {
namespace {

class EmulatedMatmuls final : public MatmulEngine {
 public:
  void multiply(const MatmulCall& call, const MatmulOperands& operands, CUstream_st* stream) override {
    enqueue(stream, [=] { execute_matmul(call, operands); });
  }
};

}  // namespace

std::unique_ptr<Operations> make_emulated_operations(Device& device, GemvSetting gemv, Clock clock) {
  return std::make_unique<DeviceOperations>(make_emulated_runtime(device, std::move(clock)),
                                            std::make_unique<EmulatedMatmuls>(),
                                            ProductChoices(gemv, "emulated device", "", nullptr));
}

}  // namespace kvlab::cuda::emulation
