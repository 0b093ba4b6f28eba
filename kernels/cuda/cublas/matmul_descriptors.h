// The adapter from our description of a product to cuBLASLt's descriptors. A library of its own: linking cuBLAS costs a
// program's start, so only what multiplies on a GPU may link this one.
#pragma once

#include <cublasLt.h>

#include "kernels/cuda/matmul_call.h"

namespace kvlab::cuda {

/// The descriptors of one call, for as long as the object lives; they can be made on a machine without a GPU. `c` and
/// `d` of cublasLtMatmul share one layout. Products and sums are f32, never TF32.
class MatmulDescriptors {
 public:
  /// `bias` is the device pointer the product will add; ignored when the call has none. Throws std::runtime_error
  /// naming the attribute that cuBLASLt refuses.
  MatmulDescriptors(const MatmulCall& call, const void* bias);
  ~MatmulDescriptors();
  MatmulDescriptors(const MatmulDescriptors&) = delete;
  MatmulDescriptors& operator=(const MatmulDescriptors&) = delete;

  /// Another bias for the same call.
  void set_bias(const void* bias);

  cublasLtMatmulDesc_t operation() const { return operation_; }
  cublasLtMatrixLayout_t a() const { return a_; }
  cublasLtMatrixLayout_t b() const { return b_; }
  cublasLtMatrixLayout_t d() const { return d_; }

 private:
  void make(const MatmulCall& call, const void* bias);
  void destroy();

  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr;
  cublasLtMatrixLayout_t b_ = nullptr;
  cublasLtMatrixLayout_t d_ = nullptr;
};

}  // namespace kvlab::cuda
