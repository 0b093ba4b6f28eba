#include "kernels/cuda/backend/linear_product.h"

#include "kernels/cuda/backend/product_timer.h"
#include "kernels/cuda/gemv.h"
#include "kernels/cuda/launchers.h"

namespace kvlab::cuda {

namespace {

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

bool rounds(const MatrixProduct& product, ProductEngine engine) {
  return engine == ProductEngine::cublas && product.input_dtype == DType::bf16;
}

}  // namespace

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

LinearWork::LinearWork(DeviceContext& context, ScratchMemory& rounded, ProductChoices& choices,
                       const MatrixProduct& product, const MatmulOperands& operands)
    : context_(context),
      rounded_(rounded),
      choices_(choices),
      shape_{product.n_out, product.n_in, product.input_dtype, product.n_rows},
      product_(context, rounded, product, operands) {}

void LinearWork::prepare() {
  engine_ = choices_.engine_for(
      shape_, [this](ProductEngine engine) { return time_product(context_, rounded_, shape_, engine); });
  product_.prepare(engine_);
}

}  // namespace kvlab::cuda
