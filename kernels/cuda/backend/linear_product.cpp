#include "kernels/cuda/backend/linear_product.h"

#include "kernels/cuda/backend/product_timer.h"
#include "kernels/cuda/launchers.h"

namespace kvlab::cuda {

namespace {

bool rounds(const MatrixProduct& product, ProductEngine engine) {
  return engine == ProductEngine::cublas && product.input_dtype == DType::bf16;
}

}  // namespace

GemvCall gemv_call(const MatrixProduct& product, const MatmulOperands& operands) {
  GemvCall call;
  call.weight = operands.a;
  call.dtype = product.input_dtype;
  call.n_out = product.n_out;
  call.n_in = product.n_in;
  call.x = static_cast<const float*>(operands.b);
  call.x_stride = product.x_stride;
  call.n_rows = product.n_rows;
  call.y = static_cast<float*>(operands.d);
  call.y_stride = product.y_stride;
  call.bias = static_cast<const float*>(operands.bias);
  call.accumulate = product.accumulate;
  call.overlaps_previous = true;  // weights are drawn or uploaded at load, long before
  return call;
}

void LinearProduct::prepare(ProductEngine engine) {
  if (!rounds(product_, engine)) return;
  rounded_.reserve(static_cast<std::size_t>(product_.n_rows * product_.n_in) * sizeof(Bf16));
}

void LinearProduct::launch(ProductEngine engine, CUstream_st* stream) const {
  if (engine == ProductEngine::own) return launch_gemv(gemv_call(product_, operands_), stream);
  MatrixProduct product = product_;
  MatmulOperands operands = operands_;
  if (rounds(product_, engine)) {
    launch_copy_rows(static_cast<const float*>(operands.b), product_.x_stride, nullptr, product_.n_rows, product_.n_in,
                     rounded_.as<Bf16>(), product_.n_in, stream);
    operands.b = rounded_.as<Bf16>();
    product.x_stride = product_.n_in;
  }
  context_.matmuls().multiply(column_major_call(product), operands, stream);
}

ProductEngine chosen_engine(DeviceContext& context, ScratchMemory& rounded, ProductChoices& choices,
                            const MatrixProduct& product) {
  const ProductShape shape{product.n_out, product.n_in, product.input_dtype, product.n_rows};
  return choices.engine_for(shape, [&](ProductEngine engine) { return time_product(context, rounded, shape, engine); });
}

LinearWork::LinearWork(DeviceContext& context, ScratchMemory& rounded, ProductChoices& choices,
                       const MatrixProduct& product, const MatmulOperands& operands)
    : context_(context),
      rounded_(rounded),
      choices_(choices),
      shape_(product),
      product_(context, rounded, product, operands) {}

void LinearWork::prepare() {
  engine_ = chosen_engine(context_, rounded_, choices_, shape_);
  product_.prepare(engine_);
}

}  // namespace kvlab::cuda
