// A product with the norm before it and the gate after it: one launch of our GEMV, or a launch for each part around
// cuBLAS, as chosen for its shape.
#pragma once

#include "kernels/cuda/backend/linear_product.h"
#include "kernels/operations.h"

namespace kvlab::cuda {

class FusedProductWork final : public Work {
 public:
  FusedProductWork(DeviceContext& context, ScratchMemory& rounded, ProductChoices& choices,
                   const FusedProduct& product);

  void prepare() override;
  void launch(CUstream_st* stream) override;

 private:
  DeviceContext& context_;
  ScratchMemory& rounded_;
  ProductChoices& choices_;
  FusedProduct parts_;
  MatrixProduct shape_;
  LinearProduct product_;  // of the normalised rows
  ProductEngine engine_ = ProductEngine::own;
};

}  // namespace kvlab::cuda
