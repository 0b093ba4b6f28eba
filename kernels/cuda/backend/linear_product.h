// A linear layer's product on the device: by our GEMV or by cuBLAS, as chosen for its shape.
#pragma once

#include "kernels/cuda/backend/device_context.h"
#include "kernels/cuda/backend/device_graph.h"
#include "kernels/cuda/gemv.h"
#include "kernels/cuda/matmul_call.h"
#include "kernels/cuda/product_choice.h"

namespace kvlab::cuda {

/// Runs dense products with f32 input; with bf16 weights cuBLAS's input is rounded to bf16 first, in scratch.
class LinearProduct {
 public:
  LinearProduct(DeviceContext& context, ScratchMemory& rounded, const MatrixProduct& product,
                const MatmulOperands& operands)
      : context_(context), rounded_(rounded), product_(product), operands_(operands) {}

  /// Sees that scratch is large enough.
  void prepare(ProductEngine engine);
  void launch(ProductEngine engine, CUstream_st* stream) const;

 private:
  DeviceContext& context_;
  ScratchMemory& rounded_;
  MatrixProduct product_;
  MatmulOperands operands_;
};

/// The engine that was chosen for the product's shape, timed here when it is the first of that shape.
ProductEngine chosen_engine(DeviceContext& context, ScratchMemory& rounded, ProductChoices& choices,
                            const MatrixProduct& product);

/// The product as our GEMV is asked for it.
GemvCall gemv_call(const MatrixProduct& product, const MatmulOperands& operands);

/// The same as an operation, which asks for its engine before it runs.
class LinearWork final : public Work {
 public:
  LinearWork(DeviceContext& context, ScratchMemory& rounded, ProductChoices& choices, const MatrixProduct& product,
             const MatmulOperands& operands);

  void prepare() override;
  void launch(CUstream_st* stream) override { product_.launch(engine_, stream); }

 private:
  DeviceContext& context_;
  ScratchMemory& rounded_;
  ProductChoices& choices_;
  MatrixProduct shape_;
  LinearProduct product_;
  ProductEngine engine_ = ProductEngine::own;
};

}  // namespace kvlab::cuda
