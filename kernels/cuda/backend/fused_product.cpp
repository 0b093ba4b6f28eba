#include "kernels/cuda/backend/fused_product.h"

#include "kernels/cuda/backend/device_matrix.h"
#include "kernels/cuda/launchers.h"

namespace kvlab::cuda {

namespace {

MatrixProduct shape_of(const FusedProduct& parts) {
  const PackedMatrix& weight = *parts.weight;
  MatrixProduct product = dense_product(parts.n_rows, weight.n_in(), weight.n_out(), weight.dtype());
  product.has_bias = parts.bias != nullptr;
  return product;
}

/// The product between the norm and the gate.
MatmulOperands inner_operands(const FusedProduct& parts) {
  float* y = parts.gate_up == nullptr ? parts.y : parts.gate_up;
  return {device_matrix(*parts.weight).data(), parts.normed, parts.bias, y};
}

GemvCall whole_call(const FusedProduct& parts, const MatrixProduct& shape) {
  GemvCall call = gemv_call(shape, {device_matrix(*parts.weight).data(), parts.x, parts.bias, parts.y});
  call.norm_weight = parts.norm_weight;
  call.norm_eps = parts.norm_eps;
  call.gate_up = parts.gate_up != nullptr;
  if (call.gate_up) call.y_stride = shape.n_out / 2;
  return call;
}

}  // namespace

FusedProductWork::FusedProductWork(DeviceContext& context, ScratchMemory& rounded, ProductChoices& choices,
                                   const FusedProduct& product)
    : context_(context),
      rounded_(rounded),
      choices_(choices),
      parts_(product),
      shape_(shape_of(product)),
      product_(context, rounded, shape_, inner_operands(product)) {}

void FusedProductWork::prepare() {
  engine_ = chosen_engine(context_, rounded_, choices_, shape_);
  product_.prepare(engine_);
}

void FusedProductWork::launch(CUstream_st* stream) {
  if (engine_ == ProductEngine::own) return launch_gemv(whole_call(parts_, shape_), stream);
  const std::int64_t n_in = parts_.weight->n_in();
  launch_rms_norm(parts_.x, n_in, parts_.n_rows, n_in, parts_.norm_weight, parts_.norm_eps, parts_.normed, n_in,
                  stream);
  product_.launch(engine_, stream);
  if (parts_.gate_up != nullptr) {
    launch_silu_multiply_elementwise(parts_.gate_up, parts_.n_rows, parts_.weight->n_out() / 2, parts_.y, stream);
  }
}

}  // namespace kvlab::cuda
