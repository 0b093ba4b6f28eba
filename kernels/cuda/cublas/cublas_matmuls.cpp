#include "kernels/cuda/cublas/cublas_matmuls.h"

#include <stdexcept>
#include <string>

namespace kvlab::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA advises for sm_90

void check(cublasStatus_t status, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(what + ": " + cublasLtGetStatusString(status));
}

std::string product_text(const MatmulCall& call) {
  return std::to_string(call.n) + " x " + std::to_string(call.k) + " by " + std::to_string(call.m) + ", " +
         std::string(dtype_name(call.a.dtype)) + ", batch " + std::to_string(call.d.n_batches);
}

/// The bytes that an address is a multiple of, as far as cuBLASLt asks.
std::uint32_t alignment_of(const void* address) {
  std::uint32_t bytes = 256;
  while (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) bytes /= 2;
  return bytes;
}

class Preference {
 public:
  Preference() { check(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate"); }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  template <typename T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

std::string cublas_version() { return std::to_string(cublasLtGetVersion()); }

CublasMatmuls::CublasMatmuls(Runtime& runtime)
    : runtime_(runtime), workspace_(runtime.allocate(kWorkspaceBytes, "cuBLASLt workspace", nullptr)) {
  runtime_.synchronize(nullptr);  // other streams use the workspace
  check(cublasLtCreate(&handle_), "cublasLtCreate");
}

CublasMatmuls::~CublasMatmuls() {
  cublasLtDestroy(handle_);
  runtime_.release(workspace_, nullptr);
}

CublasMatmuls::Key CublasMatmuls::key_of(const MatmulCall& call, const MatmulOperands& operands) {
  Key key{};
  std::size_t n = 0;
  for (const ColumnMajorMatrix* matrix : {&call.a, &call.b, &call.d}) {
    key[n++] = static_cast<std::int64_t>(matrix->dtype);
    key[n++] = matrix->rows;
    key[n++] = matrix->cols;
    key[n++] = matrix->leading;
    key[n++] = matrix->batch_stride;
  }
  key[n++] = call.d.n_batches;
  key[n++] = static_cast<std::int64_t>(call.op_a) * 2 + static_cast<std::int64_t>(call.op_b);
  key[n++] = (call.has_bias ? 2 : 0) + (call.beta != 0.0F ? 1 : 0);
  for (const void* address : {operands.a, operands.b, static_cast<const void*>(operands.d), operands.bias}) {
    key[n++] = alignment_of(address);
  }
  return key;
}

CublasMatmuls::Chosen& CublasMatmuls::choose(const MatmulCall& call, const MatmulOperands& operands) {
  std::unique_ptr<Chosen>& chosen = chosen_[key_of(call, operands)];
  if (chosen != nullptr) return *chosen;
  auto made = std::unique_ptr<Chosen>(new Chosen{{call, operands.bias}, {}});
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kWorkspaceBytes));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(operands.a));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(operands.b));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(operands.d));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(operands.d));
  cublasLtMatmulHeuristicResult_t result{};
  int n_results = 0;
  const std::string what = "cublasLtMatmulAlgoGetHeuristic (" + product_text(call) + ")";
  const MatmulDescriptors& d = made->descriptors;
  check(cublasLtMatmulAlgoGetHeuristic(handle_, d.operation(), d.a(), d.b(), d.d(), d.d(), preference.get(), 1, &result,
                                       &n_results),
        what);
  if (n_results == 0) throw std::runtime_error(what + ": the library has no algorithm for it");
  made->algorithm = result.algo;
  chosen = std::move(made);
  return *chosen;
}

void CublasMatmuls::multiply(const MatmulCall& call, const MatmulOperands& operands, CUstream_st* stream) {
  Chosen& chosen = choose(call, operands);
  if (call.has_bias) chosen.descriptors.set_bias(operands.bias);
  const MatmulDescriptors& d = chosen.descriptors;
  check(cublasLtMatmul(handle_, d.operation(), &call.alpha, operands.a, d.a(), operands.b, d.b(), &call.beta,
                       operands.d, d.d(), operands.d, d.d(), &chosen.algorithm, workspace_, kWorkspaceBytes, stream),
        "cublasLtMatmul (" + product_text(call) + ")");
}

}  // namespace kvlab::cuda
