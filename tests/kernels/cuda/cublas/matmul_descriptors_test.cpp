// What cuBLASLt's descriptors say after our call was copied into them. Needs the library, but no GPU.
#include "kernels/cuda/cublas/matmul_descriptors.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace kvlab::cuda {
namespace {

template <typename T>
T read(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute) {
  T value{};
  std::size_t bytes = 0;
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(descriptor, attribute, &value, sizeof(value), &bytes),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(bytes, sizeof(value));
  return value;
}

template <typename T>
T read(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute) {
  T value{};
  std::size_t bytes = 0;
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(layout, attribute, &value, sizeof(value), &bytes), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(bytes, sizeof(value));
  return value;
}

void expect_layout(cublasLtMatrixLayout_t layout, const ColumnMajorMatrix& matrix) {
  EXPECT_EQ(read<std::uint32_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE),
            static_cast<std::uint32_t>(matrix.dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF));
  EXPECT_EQ(read<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_ORDER), CUBLASLT_ORDER_COL);
  EXPECT_EQ(read<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS), static_cast<std::uint64_t>(matrix.rows));
  EXPECT_EQ(read<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS), static_cast<std::uint64_t>(matrix.cols));
  EXPECT_EQ(read<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD), matrix.leading);
  EXPECT_EQ(read<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT), matrix.n_batches);
  EXPECT_EQ(read<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET), matrix.batch_stride);
}

void expect_call(const MatmulDescriptors& descriptors, const MatmulCall& call) {
  const cublasLtMatmulDesc_t operation = descriptors.operation();
  EXPECT_EQ(read<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(read<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_SCALE_TYPE), CUDA_R_32F);
  EXPECT_EQ(read<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_TRANSA),
            call.op_a == MatrixOp::transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  EXPECT_EQ(read<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_N);
  expect_layout(descriptors.a(), call.a);
  expect_layout(descriptors.b(), call.b);
  expect_layout(descriptors.d(), call.d);
}

TEST(CublasDescriptors, SayWhatTheCallSays) {
  for (const DType input : {DType::f32, DType::bf16}) {
    for (const WeightOrder order : {WeightOrder::out_by_in, WeightOrder::in_by_out}) {
      MatrixProduct product = dense_product(7, 576, 960, input);
      product.weight_order = order;
      product.w_stride = 1000;
      product.n_batches = 9;
      product.x_batch_stride = std::int64_t{1} << 33;  // caches exceed 2^31 elements
      product.y_batch_stride = 7 * 960;
      const MatmulCall call = column_major_call(product);
      const MatmulDescriptors descriptors(call, nullptr);
      expect_call(descriptors, call);
      EXPECT_EQ(read<std::int32_t>(descriptors.operation(), CUBLASLT_MATMUL_DESC_EPILOGUE), CUBLASLT_EPILOGUE_DEFAULT);
    }
  }
}

TEST(CublasDescriptors, HoldTheBiasAndItsType) {
  const float bias[4] = {};
  for (const DType output : {DType::f32, DType::bf16}) {
    MatrixProduct product = dense_product(2, 8, 4, DType::bf16);
    product.output_dtype = output;
    product.has_bias = true;
    const MatmulCall call = column_major_call(product);
    const MatmulDescriptors descriptors(call, bias);
    expect_call(descriptors, call);
    const cublasLtMatmulDesc_t operation = descriptors.operation();
    EXPECT_EQ(read<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE), CUBLASLT_EPILOGUE_BIAS);
    EXPECT_EQ(read<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE),
              output == DType::f32 ? CUDA_R_32F : CUDA_R_16BF);
    EXPECT_EQ(read<const void*>(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER), bias);
  }
}

}  // namespace
}  // namespace kvlab::cuda
