// The stand-in reads nothing but the call, so that a wrong leading dimension or operation gives wrong numbers here too.
#include "kernels/cuda_emulation/matmul.h"

namespace kvlab::cuda::emulation {
namespace {

std::int64_t offset_of(const ColumnMajorMatrix& matrix, std::int64_t batch, std::int64_t row, std::int64_t col) {
  return batch * matrix.batch_stride + col * matrix.leading + row;
}

std::int64_t offset_of(const ColumnMajorMatrix& matrix, MatrixOp op, std::int64_t batch, std::int64_t row,
                       std::int64_t col) {
  return op == MatrixOp::transposed ? offset_of(matrix, batch, col, row) : offset_of(matrix, batch, row, col);
}

float load(DType dtype, const void* values, std::int64_t i) {
  return dtype == DType::f32 ? static_cast<const float*>(values)[i]
                             : bf16_to_float(static_cast<const Bf16*>(values)[i]);
}

void store(DType dtype, void* values, std::int64_t i, float value) {
  if (dtype == DType::f32) {
    static_cast<float*>(values)[i] = value;
  } else {
    static_cast<Bf16*>(values)[i] = bf16_from_float(value);
  }
}

float dot(const MatmulCall& call, const MatmulOperands& operands, std::int64_t batch, std::int64_t row,
          std::int64_t col) {
  float sum = 0.0F;
  for (std::int64_t i = 0; i < call.k; ++i) {
    sum += load(call.a.dtype, operands.a, offset_of(call.a, call.op_a, batch, row, i)) *
           load(call.b.dtype, operands.b, offset_of(call.b, call.op_b, batch, i, col));
  }
  return sum;
}

}  // namespace

void execute_matmul(const MatmulCall& call, const MatmulOperands& operands) {
  for (std::int64_t batch = 0; batch < call.d.n_batches; ++batch) {
    for (std::int64_t col = 0; col < call.n; ++col) {
      for (std::int64_t row = 0; row < call.m; ++row) {
        const std::int64_t at = offset_of(call.d, batch, row, col);
        float value = call.alpha * dot(call, operands, batch, row, col);
        if (call.beta != 0.0F) value += call.beta * load(call.d.dtype, operands.d, at);
        if (call.has_bias) value += load(call.bias_dtype, operands.bias, row);
        store(call.d.dtype, operands.d, at, value);
      }
    }
  }
}

}  // namespace kvlab::cuda::emulation
