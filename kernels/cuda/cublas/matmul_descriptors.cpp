// Sets one attribute a line, and says which one was refused.
#include "kernels/cuda/cublas/matmul_descriptors.h"

#include <stdexcept>
#include <string>

namespace kvlab::cuda {
namespace {

void throw_on_error(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("cuBLASLt refuses ") + what + ": " + cublasLtGetStatusString(status));
}

cudaDataType_t data_type(DType dtype) { return dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF; }

cublasOperation_t operation_of(MatrixOp op) { return op == MatrixOp::transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

template <typename T>
void set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute, const T& value, const char* what) {
  throw_on_error(cublasLtMatmulDescSetAttribute(descriptor, attribute, &value, sizeof(value)), what);
}

template <typename T>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const T& value, const char* what) {
  throw_on_error(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)), what);
}

void make_layout(const ColumnMajorMatrix& matrix, cublasLtMatrixLayout_t* layout, const char* what) {
  throw_on_error(cublasLtMatrixLayoutCreate(layout, data_type(matrix.dtype), static_cast<std::uint64_t>(matrix.rows),
                                            static_cast<std::uint64_t>(matrix.cols), matrix.leading),
                 what);
  set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(matrix.n_batches), what);
  set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch_stride, what);
}

}  // namespace

MatmulDescriptors::MatmulDescriptors(const MatmulCall& call, const void* bias) {
  try {
    make(call, bias);
  } catch (...) {
    destroy();
    throw;
  }
}

MatmulDescriptors::~MatmulDescriptors() { destroy(); }

void MatmulDescriptors::make(const MatmulCall& call, const void* bias) {
  throw_on_error(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "the operation");
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, operation_of(call.op_a), "the operation of a");
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, operation_of(call.op_b), "the operation of b");
  if (call.has_bias) {
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, "the epilogue");
    set(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(call.bias_dtype), "the bias's type");
    set_bias(bias);
  }
  make_layout(call.a, &a_, "the layout of a");
  make_layout(call.b, &b_, "the layout of b");
  make_layout(call.d, &d_, "the layout of d");
}

void MatmulDescriptors::set_bias(const void* bias) {
  set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias, "the bias");
}

void MatmulDescriptors::destroy() {
  for (const cublasLtMatrixLayout_t layout : {a_, b_, d_}) {
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
  }
  if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
}

}  // namespace kvlab::cuda
