// One description of a matrix product for the CUDA side: what the transformer asks for, row by row, and the
// column-major call that says the same to cuBLAS. Plain C++: cublas/ copies the call into descriptors, the emulator
// executes it.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace kvlab::cuda {

/// How the right factor lies in memory: a weight [n_out, n_in], or a matrix [n_in, n_out] such as V.
enum class WeightOrder { out_by_in, in_by_out };

/// y = scale * x w^T (+ bias) (+ y), for each of n_batches; all matrices row-major. x [n_rows, n_in], w [n_out, n_in]
/// or [n_in, n_out], y [n_rows, n_out], bias [n_out] of y's type, the same for all batches. Accumulation is f32.
struct MatrixProduct {
  std::int64_t n_rows = 0;
  std::int64_t n_in = 0;
  std::int64_t n_out = 0;
  DType input_dtype = DType::f32;   // of x and of w
  DType output_dtype = DType::f32;  // of y and of bias
  WeightOrder weight_order = WeightOrder::out_by_in;
  std::int64_t x_stride = 0;  // elements from one row to the next, at least a row's width
  std::int64_t w_stride = 0;
  std::int64_t y_stride = 0;
  std::int64_t n_batches = 1;
  std::int64_t x_batch_stride = 0;  // elements from one batch to the next; 0 for x or w: all batches share it
  std::int64_t w_batch_stride = 0;
  std::int64_t y_batch_stride = 0;  // results lie one after the other, or side by side within y's rows
  float scale = 1.0F;
  bool has_bias = false;
  bool accumulate = false;
};

/// The product whose matrices are dense, in one batch: what a linear layer is.
MatrixProduct dense_product(std::int64_t n_rows, std::int64_t n_in, std::int64_t n_out, DType input_dtype);

enum class MatrixOp { as_stored, transposed };

/// A matrix in memory, column by column, and its copies in the other batches.
struct ColumnMajorMatrix {
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t leading = 0;  // elements from one column to the next
  std::int64_t n_batches = 1;
  std::int64_t batch_stride = 0;
};

/// d = alpha * op(a) op(b) + beta * d (+ bias [m], added to every column). op(a) [m, k], op(b) [k, n], d [m, n].
struct MatmulCall {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  MatrixOp op_a = MatrixOp::as_stored;
  MatrixOp op_b = MatrixOp::as_stored;
  ColumnMajorMatrix a;  // the weight
  ColumnMajorMatrix b;  // x
  ColumnMajorMatrix d;  // y
  float alpha = 1.0F;
  float beta = 0.0F;
  bool has_bias = false;
  DType bias_dtype = DType::f32;
};

/// The four arrays of a call. `bias` is read only where the call has one.
struct MatmulOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* d = nullptr;
};

/// The same product in columns: a row-major matrix is its own transpose in column-major eyes, so y^T = w x^T. Throws
/// InputError naming the field for an empty product, a stride below its row, or types that cuBLAS does not pair.
MatmulCall column_major_call(const MatrixProduct& product);

}  // namespace kvlab::cuda
