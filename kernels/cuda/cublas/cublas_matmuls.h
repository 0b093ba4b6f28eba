// Matrix products by cuBLASLt: one handle, one workspace, and for each kind of call the algorithm that the library's
// heuristic names first.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "kernels/cuda/backend/matmul_engine.h"
#include "kernels/cuda/cublas/matmul_descriptors.h"
#include "kernels/cuda/runtime.h"

namespace kvlab::cuda {

/// Of the library that is loaded.
std::string cublas_version();

class CublasMatmuls final : public MatmulEngine {
 public:
  /// `runtime` outlives it. Throws OutOfMemory for the workspace, std::runtime_error when there is no device.
  explicit CublasMatmuls(Runtime& runtime);
  ~CublasMatmuls() override;
  CublasMatmuls(const CublasMatmuls&) = delete;
  CublasMatmuls& operator=(const CublasMatmuls&) = delete;

  /// The first call of a kind asks the heuristic. Throws std::runtime_error naming the product.
  void multiply(const MatmulCall& call, const MatmulOperands& operands, CUstream_st* stream) override;

 private:
  struct Chosen {
    MatmulDescriptors descriptors;
    cublasLtMatmulAlgo_t algorithm;
  };
  /// Every number of a call and the alignment of its operands.
  using Key = std::array<std::int64_t, 22>;

  static Key key_of(const MatmulCall& call, const MatmulOperands& operands);
  Chosen& choose(const MatmulCall& call, const MatmulOperands& operands);

  Runtime& runtime_;
  void* workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Chosen>> chosen_;
};

}  // namespace kvlab::cuda
