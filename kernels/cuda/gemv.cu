// Checks a GEMV and launches its instance.
#include <limits>
#include <string>

#include "kernels/cuda/gemv.cuh"
#include "kernels/cuda/gemv.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/error.h"

namespace kvlab::cuda {

namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw InputError("gemv: " + what);
}

void check(const GemvCall& call) {
  constexpr std::int64_t kMaxSize = std::numeric_limits<std::int32_t>::max() / 2;  // columns past the edge are counted
  require(gemv_takes(call.n_rows), std::to_string(call.n_rows) + " rows; it takes 1 to " +
                                       std::to_string(kGemvMaxRows) + ", cuBLAS takes any number");
  require(call.n_in >= 0 && call.n_out >= 0 && call.n_in <= kMaxSize && call.n_out <= kMaxSize,
          "the weight is [" + std::to_string(call.n_out) + ", " + std::to_string(call.n_in) + "]; each may be 0 to " +
              std::to_string(kMaxSize));
  require(!call.gate_up || call.n_out % 2 == 0,
          "gate_up with " + std::to_string(call.n_out) + " outputs; gates and ups are equally many");
  const std::int64_t width = call.gate_up ? call.n_out / 2 : call.n_out;
  require(call.n_rows == 1 || (call.x_stride >= call.n_in && call.y_stride >= width),
          "strides are " + std::to_string(call.x_stride) + " and " + std::to_string(call.y_stride) +
              "; rows of x have " + std::to_string(call.n_in) + " values, rows of y " + std::to_string(width));
}

/// Whether every access of a row may take 16 bytes.
bool is_wide(const GemvCall& call) {
  const auto values = static_cast<std::int64_t>(16 / dtype_bytes(call.dtype));
  return call.n_in % values == 0 && is_aligned_to_16(call.weight) && is_aligned_to_16(call.x) &&
         (call.n_rows == 1 || call.x_stride % 4 == 0) && is_aligned_to_16(call.norm_weight);
}

template <typename T>
GemvParams<T> params_of(const GemvCall& call) {
  GemvParams<T> params{};
  params.weight = static_cast<const T*>(call.weight);
  params.n_out = static_cast<std::int32_t>(call.n_out);
  params.n_in = static_cast<std::int32_t>(call.n_in);
  params.x = call.x;
  params.x_stride = call.x_stride;
  params.n_rows = static_cast<std::int32_t>(call.n_rows);
  params.y = call.y;
  params.y_stride = call.y_stride;
  params.bias = call.bias;
  params.norm_weight = call.norm_weight;
  params.norm_eps = call.norm_eps;
  params.accumulate = call.accumulate;
  params.gate_up = call.gate_up;
  return params;
}

template <typename T, int m>
void launch_rows(const GemvCall& call, CUstream_st* stream) {
  constexpr int kWide = static_cast<int>(16 / sizeof(T));
  const GemvPlan plan = plan_gemv(call, is_wide(call));
  LaunchShape shape{plan.n_blocks, plan.block_size, 1, 1, sizeof(GemvStorage<m>)};
  shape.overlaps_previous = call.overlaps_previous;
  launch("gemv", plan.access_values > 1 ? gemv_kernel<T, m, kWide> : gemv_kernel<T, m, 1>, shape, stream,
         params_of<T>(call));
}

template <typename T>
void launch_for(const GemvCall& call, CUstream_st* stream) {
  switch (gemv_instance_rows(call.n_rows)) {
    case 1:
      return launch_rows<T, 1>(call, stream);
    case 2:
      return launch_rows<T, 2>(call, stream);
    case 4:
      return launch_rows<T, 4>(call, stream);
    default:
      return launch_rows<T, 8>(call, stream);
  }
}

}  // namespace

void launch_gemv(const GemvCall& call, CUstream_st* stream) {
  check(call);
  if (call.n_out == 0) return;  // a launch of no blocks is an error
  if (call.dtype == DType::f32) {
    launch_for<float>(call, stream);
  } else {
    launch_for<Bf16>(call, stream);
  }
}

}  // namespace kvlab::cuda
