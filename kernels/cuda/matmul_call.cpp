// Row-major products as column-major calls, and what is refused before cuBLAS would say "invalid value".
#include "kernels/cuda/matmul_call.h"

#include <string>

#include "kernels/error.h"

namespace kvlab::cuda {
namespace {

void check_at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  throw InputError("matrix product: " + std::string(name) + " is " + std::to_string(value) + "; at least " +
                   std::to_string(least) + " is needed");
}

std::int64_t weight_width(const MatrixProduct& product) {
  return product.weight_order == WeightOrder::out_by_in ? product.n_in : product.n_out;
}

void check(const MatrixProduct& product) {
  check_at_least("n_rows", product.n_rows, 1);
  check_at_least("n_in", product.n_in, 1);
  check_at_least("n_out", product.n_out, 1);
  check_at_least("n_batches", product.n_batches, 1);
  check_at_least("x_stride", product.x_stride, product.n_in);
  check_at_least("w_stride", product.w_stride, weight_width(product));
  check_at_least("y_stride", product.y_stride, product.n_out);
  check_at_least("x_batch_stride", product.x_batch_stride, 0);
  check_at_least("w_batch_stride", product.w_batch_stride, 0);
  // Results of two batches must not overlap.
  const std::int64_t y_extent = (product.n_rows - 1) * product.y_stride + product.n_out;
  const bool side_by_side = product.y_batch_stride >= product.n_out &&
                            (product.n_batches - 1) * product.y_batch_stride + product.n_out <= product.y_stride;
  check_at_least("y_batch_stride", product.y_batch_stride, product.n_batches > 1 && !side_by_side ? y_extent : 0);
  if (product.input_dtype == DType::f32 && product.output_dtype == DType::bf16) {
    throw InputError("matrix product: f32 inputs with bf16 output; cuBLAS pairs bf16 output with bf16 inputs only");
  }
}

}  // namespace

MatrixProduct dense_product(std::int64_t n_rows, std::int64_t n_in, std::int64_t n_out, DType input_dtype) {
  MatrixProduct product;
  product.n_rows = n_rows;
  product.n_in = n_in;
  product.n_out = n_out;
  product.input_dtype = input_dtype;
  product.x_stride = n_in;
  product.w_stride = n_in;
  product.y_stride = n_out;
  return product;
}

MatmulCall column_major_call(const MatrixProduct& product) {
  check(product);
  const bool out_by_in = product.weight_order == WeightOrder::out_by_in;
  const std::int64_t batches = product.n_batches;
  MatmulCall call;
  call.m = product.n_out;
  call.n = product.n_rows;
  call.k = product.n_in;
  call.op_a = out_by_in ? MatrixOp::transposed : MatrixOp::as_stored;
  call.op_b = MatrixOp::as_stored;
  call.a = {product.input_dtype,
            out_by_in ? product.n_in : product.n_out,
            out_by_in ? product.n_out : product.n_in,
            product.w_stride,
            batches,
            product.w_batch_stride};
  call.b = {product.input_dtype, product.n_in, product.n_rows, product.x_stride, batches, product.x_batch_stride};
  call.d = {product.output_dtype, product.n_out, product.n_rows, product.y_stride, batches, product.y_batch_stride};
  call.alpha = product.scale;
  call.beta = product.accumulate ? 1.0F : 0.0F;
  call.has_bias = product.has_bias;
  call.bias_dtype = product.output_dtype;
  return call;
}

}  // namespace kvlab::cuda
